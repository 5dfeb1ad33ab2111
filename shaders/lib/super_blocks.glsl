// Blocks of the native formats (abi.h). A file of formats/ knows each format's bits and scales (lib/formats.glsl); here are the places of its words, and
// the choice by FORMAT.

// The 32-bit word of the upper bits of a super-block's columns 8 eight to 8 eight + 7. row: of the row's first word, in 16-byte words.
uint upper_word(uint row, uint block, uint eight) {
  const uint k = block % SUPER_BLOCKS * UPPER + eight * UPPER / 4;
  return (row + (block / SUPER_BLOCKS * SUPER_WORDS(BITS) + 1 + k / 4 * (1 + OF_UPPER * LOWER / 4)) * GROUP_ROWS) * 4 + k % 4;
}
// The first word of a block's super-block.
uint scales_at(uint row, uint block) { return row + block / SUPER_BLOCKS * SUPER_WORDS(BITS) * GROUP_ROWS; }

// The lower bits of columns 8 eight to 8 eight + 7 of a block, lowest first in the 32-bit word. word: of the block.
uint lower_of(uvec4 word, uint block, uint eight) {
  if (LOWER == 4) return word[eight];
  return (block % 2 == 0 ? word.xy : word.zw)[eight / 2] >> (eight % 2 * 4);
}

const bool IQ4 = FORMAT == FORMAT_IQ4_NL || FORMAT == FORMAT_IQ4_XS;

// Eight integers as bytes, and as floats.
uvec2 bytes_of_eight(uint lower, uint upper, uint eight) {
  if (FORMAT == FORMAT_Q6) return q6_bytes(lower, upper, eight);
  if (FORMAT == FORMAT_Q4_0) return q4_0_bytes(lower);
  if (FORMAT == FORMAT_Q5_0) return q5_0_bytes(lower, upper, eight);
  if (FORMAT == FORMAT_Q5_1) return q5_1_bytes(lower, upper, eight);
  if (FORMAT == FORMAT_MXFP4) return mxfp4_bytes(lower);
  if (IQ4) return iq4_bytes(lower);
  if (FORMAT == FORMAT_IQ3_XXS) return iq3_xxs_bytes(lower);
  if (FORMAT == FORMAT_IQ3_S) return iq3_s_bytes(lower);
  if (FORMAT == FORMAT_Q2K) return q2k_bytes(lower);
  if (FORMAT == FORMAT_Q3K) return q3k_bytes(lower, upper, eight);
  if (FORMAT == FORMAT_IQ2) return iq2_bytes(lower, upper, eight);
  if (FORMAT == FORMAT_IQ1) return iq1_bytes(lower, upper, eight);
  return FORMAT == FORMAT_Q5K ? q5k_bytes(lower, upper, eight) : q4k_bytes(lower);
}
void integers_of(out vec4 low, out vec4 high, uint lower, uint upper, uint eight) {
  if (IQ4) {
    const uvec2 places = q4k_bytes(lower);
    low = iq4_values(unsigned_bytes(places.x));
    high = iq4_values(unsigned_bytes(places.y));
    return;
  }
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
// The factors of a super-block's scales and of its minima; those of the scales make up for the bytes being multiples of the integers. scale_words: of q6 and
// q2k the scales of the block and its neighbour, then notes; of three bits half of the super-block's first word; else all of that.
vec2 units_of_super(uvec4 scale_words, uint block) {
  if (FORMAT == FORMAT_Q6) return vec2(1.0 / 4 * scale_of(scale_words.y >> (block / SUPER_BLOCKS % 2 * 16)));
  if (THREE) return vec2((FORMAT == FORMAT_Q3K ? 1.0 / 32 : 1.0 / 8) * scale_of(scale_words.x >> 24 | scale_words.y >> 24 << 8));
  const uint word = FORMAT == FORMAT_Q2K ? scale_words.y : scale_words.w;
  if (MINIMA) return vec2(scale_of(word), -scale_of(word >> 16));
  return vec2((FORMAT == FORMAT_IQ3_S ? 1.0 / 8 : FORMAT == FORMAT_IQ3_XXS ? 1.0 / 2 : 1) * scale_of(word));
}
// The scales of a block's first and second 16 columns, of SUPER without MINIMA.
vec2 scales_of_halves(uvec4 scale_words, uint block) {
  if (FORMAT == FORMAT_Q6) return vec2(q6_scales(scale_words.x, block));
  return THREE ? vec2(signed_scales(scale_words.xy, block)) : vec2(signed_scale(scale_words, block));
}
// A block's scale and minimum, of SUPER with MINIMA. half_: of the block.
vec2 scales_of_line(uvec4 scale_words, uint block, uint half_) {
  return vec2(FORMAT == FORMAT_Q2K ? q2k_scale_and_minimum(scale_words.x, block, half_) : scale_and_minimum(scale_words, block));
}

// The factors of the bytes of a block's first and second 16 columns, of SUPER without MINIMA.
vec2 halves_of_super(uvec4 scale_words, uint block) { return units_of_super(scale_words, block).x * scales_of_halves(scale_words, block); }
// The factor of a block's integers and what is added then, of MINIMA. half_: of the block.
vec2 line_of(uvec4 scale_words, uint block, uint half_) {
  return SUPER ? units_of_super(scale_words, block) * scales_of_line(scale_words, block, half_) : note_of(scale_words.x);
}
