// Blocks of the native formats (abi.h). A file of formats/ knows each format's bits and scales (lib/formats.glsl); here are the places of its words, and
// the choice by FORMAT.

// 32-bit words of upper bits of a block.
const uint UPPER = PACKED ? BITS - 4 : 0;

// The 32-bit word of the upper bits of a super-block's columns 8 eight to 8 eight + 7. row: of the row's first word, in 16-byte words.
uint upper_word(uint row, uint block, uint eight) {
  const uint k = block % SUPER_BLOCKS * UPPER + eight * UPPER / 4;
  return (row + (block_word(block) - block % SUPER_BLOCKS + SUPER_BLOCKS + k / 4) * GROUP_ROWS) * 4 + k % 4;
}
// The last word of a block's super-block.
uint scales_at(uint row, uint block) { return row + (block_word(block) - block % SUPER_BLOCKS + SUPER_WORDS(BITS) - 1) * GROUP_ROWS; }

// Eight integers as bytes, and as floats.
uvec2 bytes_of_eight(uint lower, uint upper, uint eight) {
  if (FORMAT == FORMAT_Q6) return q6_bytes(lower, upper, eight);
  if (FORMAT == FORMAT_Q4_0) return q4_0_bytes(lower);
  if (FORMAT == FORMAT_Q5_0) return q5_0_bytes(lower, upper, eight);
  if (FORMAT == FORMAT_Q5_1) return q5_1_bytes(lower, upper, eight);
  if (FORMAT == FORMAT_MXFP4) return mxfp4_bytes(lower);
  return FORMAT == FORMAT_Q5K ? q5k_bytes(lower, upper, eight) : q4k_bytes(lower);
}
void integers_of(out vec4 low, out vec4 high, uint lower, uint upper, uint eight) {
  const uvec2 bytes = bytes_of_eight(lower, upper, eight);
  low = MINIMA ? unsigned_bytes(bytes.x) : signed_bytes(bytes.x);
  high = MINIMA ? unsigned_bytes(bytes.y) : signed_bytes(bytes.y);
}
// The factor of a block's bytes, of PAIRS.
float scale_of_pair(uint notes, uint block) {
  if (FORMAT == FORMAT_MXFP4) return uintBitsToFloat(block % 2 == 0 ? notes << 16 : notes & 0xffff0000u);
  const float unit = FORMAT == FORMAT_Q4_0 ? 1.0 / 16 : FORMAT == FORMAT_Q5_0 ? 1.0 / 8 : 1;
  return unit * scale_of(block % 2 == 0 ? notes : notes >> 16);
}
// The factor of a block's integers and what is added then, of MINIMA.
vec2 line_of(uvec4 scale_words, uint block) {
  return SUPER ? scale_and_minimum(scale_words, block) : vec2(scale_of(scale_words.x), scale_of(scale_words.x >> 16));
}
