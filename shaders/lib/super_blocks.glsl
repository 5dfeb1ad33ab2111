// Blocks of the formats of super-blocks (abi.h). A file of formats/ knows each format's bits and scales; here are the places of its words, and the choice by
// FORMAT.
#include "formats/q6.glsl"

// 32-bit words of upper bits of a block.
const uint UPPER = BITS - 4;

// The 32-bit word of the upper bits of columns 8 eight to 8 eight + 7. row: of the row's first word, in 16-byte words.
uint upper_word(uint row, uint block, uint eight) {
  const uint k = block % SUPER_BLOCKS * UPPER + eight * UPPER / 4;
  return (row + (block_word(block) - block % SUPER_BLOCKS + SUPER_BLOCKS + k / 4) * GROUP_ROWS) * 4 + k % 4;
}
// The last word of a block's super-block.
uint scales_at(uint row, uint block) { return row + (block_word(block) - block % SUPER_BLOCKS + SUPER_WORDS(BITS) - 1) * GROUP_ROWS; }

// Eight integers as floats.
void integers_of(out vec4 low, out vec4 high, uint lower, uint upper, uint eight) {
  const uvec2 bytes = q6_bytes(lower, upper, eight);
  low = signed_bytes(bytes.x);
  high = signed_bytes(bytes.y);
}
