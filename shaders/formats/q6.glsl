// Q6_K (abi.h).

// The scales of a block's first and second 16 integers, from those of the block and its neighbour.
ivec2 q6_scales(uint scales, uint block) {
  const int bytes = int(scales >> (block % 2 * 16));
  return ivec2(bytes << 24, bytes << 16) >> 24;
}

// Four times the integers of columns 8 eight to 8 eight + 7 of a block, as signed bytes of two words. lower: the 32-bit word of their lower bits;
// upper: that of their upper bits.
uvec2 q6_bytes(uint lower, uint upper, uint eight) {
  const uint bits = upper << (eight % 2 * 4);
  return (uvec2(lower << 2, lower >> 2) & 0x3c3c3c3cu) | (uvec2(bits, bits << 2) & 0xc0c0c0c0u);
}
