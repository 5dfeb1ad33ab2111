// Q3_K (abi.h), and the scales of all formats of three bits.

// The scales of a block's first and second 16 integers. notes: the half of its super-block's first word.
ivec2 signed_scales(uvec2 notes, uint block) {
  const uint own = (block % 4 < 2 ? notes.x : notes.y) << (block % 2 == 0 ? 20 : 8);
  return ivec2(int(own << 6), int(own)) >> 26;
}

// Thirty-two times the integers of columns 8 eight to 8 eight + 7 of a block, as signed bytes of two words.
uvec2 q3k_bytes(uint lower, uint upper, uint eight) {
  const uint bits = upper >> (eight * 2);
  return (uvec2(lower << 5, lower << 3) & 0x60606060u) | (uvec2(bits << 7, bits << 6) & 0x80808080u);
}
