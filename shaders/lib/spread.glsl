// llvmpipe gives each core one stretch of the workgroups, and of tokens and parts the later ones have more to do, or nothing yet. So the first
// half of the grid does the even ones, and the second the odd.
uint spread(uint i, uint count) {
  const uint evens = (count + 1) / 2;
  return i < evens ? 2 * i : 2 * (i - evens) + 1;
}
