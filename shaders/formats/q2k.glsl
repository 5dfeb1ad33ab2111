// Q2_K (abi.h).

// The scale and minimum of a block's first or second 16 integers, from those of the block and its neighbour.
uvec2 q2k_scale_and_minimum(uint scales, uint block, uint half_) {
  const uint byte = scales >> (block % 2 * 16 + half_ * 8);
  return uvec2(byte, byte >> 4) & 15u;
}

// The integers of columns 8 eight to 8 eight + 7 of a block, as bytes of two words.
uvec2 q2k_bytes(uint lower) { return uvec2(lower, lower >> 2) & 0x03030303u; }
