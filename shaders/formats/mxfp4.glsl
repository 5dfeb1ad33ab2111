// MXFP4 (abi.h): twice the numbers of columns 8 eight to 8 eight + 7 of a block, as signed bytes of two words. The highest of a number's four
// bits is its sign; the other three mean 0, 1, 2, 3, 4, 6, 8 and 12.
uvec2 mxfp4_bytes(uint lower) {
  const uvec2 bits = uvec2(lower, lower >> 4);
  const uvec2 two = bits & 0x03030303u, four = (bits >> 2) & 0x01010101u, sign = (bits >> 3) & 0x01010101u;
  const uvec2 size = two + 4 * four + (two & (3 * four)) + 2 * (two & (two >> 1) & four);
  return (size ^ (255 * sign)) + sign;  // no byte overflows, because there is no -0
}
