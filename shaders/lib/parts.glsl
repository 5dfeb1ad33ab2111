// Parts of attend over a long cache, and their joining by the workgroup that comes last (abi.h has what lies in them). The including shader
// has `parts` and, at the same binding, `arrivals`, both coherent, and y.
struct Parts {
  uint count;  // that have positions
  uint rows;   // tokens and heads
  uint all;    // parts, those without positions too
  uint words;  // of the buffer
};
// Positions of a part: as few as `least`, and as many times that as leave no more than `most` parts.
uint span_of(uint seen, uint least, uint most) {
  const uint each = (seen + most - 1) / most;
  return max((each + least - 1) / least, 1) * least;
}
uint part_at(Parts p, uint part, uint row, uint dim) { return (part * p.rows + row) * dim; }
uint sums_at(Parts p, uint part, uint row, uint dim) { return p.all * p.rows * dim + (part * p.rows + row) * 2; }

shared uint arrived;
// True in the workgroup that comes last for a row: then the other parts are there to be read. Every lane of the workgroup calls it, after
// it has written its part.
bool comes_last(Parts p, uint row, uint lane) {
  const uint counter = p.words - 1 - row;
  memoryBarrierBuffer();
  barrier();
  if (lane == 0) arrived = atomicAdd(arrivals[counter], 1);
  barrier();
  if (arrived + 1 != p.count) return false;
  memoryBarrierBuffer();
  if (lane == 0) arrivals[counter] = 0;  // for the next pass
  return true;
}

// Dimension d of a row: the softmax over all positions from those over some (Milakov and Gimelshein 2018, section 3.1).
float joined(Parts p, uint row, uint dim, uint d) {
  float peak = -1e30, total = 0, sum = 0;
  for (uint part = 0; part < p.count; ++part) {
    const uint at = sums_at(p, part, row, dim);
    const float part_peak = parts[at], new_peak = max(peak, part_peak);
    const float shrink = exp(peak - new_peak), scale = exp(part_peak - new_peak);
    total = total * shrink + parts[at + 1] * scale;
    sum = sum * shrink + parts[part_at(p, part, row, dim) + d] * scale;
    peak = new_peak;
  }
  return sum / total;
}
