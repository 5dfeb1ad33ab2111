// Blocks of the formats of super-blocks (abi.h). A file of formats/ knows each format's bits and scales (lib/formats.glsl); here are the places of its words, and
// the choice by FORMAT.

// 32-bit words of upper bits of a block.
const uint UPPER = BITS - 4;

// The 32-bit word of the upper bits of columns 8 eight to 8 eight + 7. row: of the row's first word, in 16-byte words.
uint upper_word(uint row, uint block, uint eight) {
  const uint k = block % SUPER_BLOCKS * UPPER + eight * UPPER / 4;
  return (row + (block_word(block) - block % SUPER_BLOCKS + SUPER_BLOCKS + k / 4) * GROUP_ROWS) * 4 + k % 4;
}
// The last word of a block's super-block.
uint scales_at(uint row, uint block) { return row + (block_word(block) - block % SUPER_BLOCKS + SUPER_WORDS(BITS) - 1) * GROUP_ROWS; }

// Eight integers as bytes, and as floats.
uvec2 bytes_of_eight(uint lower, uint upper, uint eight) {
  if (FORMAT == FORMAT_Q6) return q6_bytes(lower, upper, eight);
  return FORMAT == FORMAT_Q5K ? q5k_bytes(lower, upper, eight) : q4k_bytes(lower);
}
void integers_of(out vec4 low, out vec4 high, uint lower, uint upper, uint eight) {
  const uvec2 bytes = bytes_of_eight(lower, upper, eight);
  low = FORMAT == FORMAT_Q6 ? signed_bytes(bytes.x) : unsigned_bytes(bytes.x);
  high = FORMAT == FORMAT_Q6 ? signed_bytes(bytes.y) : unsigned_bytes(bytes.y);
}
