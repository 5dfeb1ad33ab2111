// How a layer matrix's tiles lie (abi.h), by FORMAT, which the including shader declares.

const uint BITS = FORMAT == FORMAT_Q6 ? 6 : FORMAT == FORMAT_Q5K ? 5 : 4;  // of a number, in a format of super-blocks
const bool SUPER = FORMAT >= FORMAT_Q6;           // super-blocks
const uint SCALES = FORMAT == FORMAT_Q6 ? 2 : 1;  // of a block: its halves may have one each
const bool MINIMA = FORMAT == FORMAT_Q4 || FORMAT == FORMAT_Q5K || FORMAT == FORMAT_Q4K;  // blocks have a minimum
const uint BLOCK_WORDS = FORMAT == FORMAT_Q8 ? 2 : FORMAT == FORMAT_Q4 || SUPER ? 1 : 4;  // 16-byte words of a block of a row; SUPER: of lower bits
// Notes: the 32-bit words after a tile's values, for q8 the scales of two blocks, for q4 a block's scale and minimum, for q6 two super-blocks' d.
const bool NOTED = FORMAT == FORMAT_Q8 || FORMAT == FORMAT_Q4 || FORMAT == FORMAT_Q6;
const uint RUN = FORMAT == FORMAT_Q8 ? 2 : FORMAT == FORMAT_Q6 ? 2 * SUPER_BLOCKS : 1;  // blocks of a word of notes

// 16-byte words of a row.
uint row_words(uint blocks) { return SUPER ? blocks / SUPER_BLOCKS * SUPER_WORDS(BITS) : blocks * BLOCK_WORDS; }
// The first word of a block, counted in its row.
uint block_word(uint block) { return SUPER ? block / SUPER_BLOCKS * SUPER_WORDS(BITS) + block % SUPER_BLOCKS : block * BLOCK_WORDS; }

// 32-bit words of a tile.
uint tile_words(uint blocks) {
  if (FORMAT == FORMAT_Q4) return TILE_ROWS * blocks * 5;
  if (SUPER) return TILE_ROWS * (row_words(blocks) * 4 + (NOTED ? (blocks + RUN - 1) / RUN : 0));
  return FORMAT == FORMAT_Q8 ? TILE_ROWS * (blocks * 8 + (blocks + 1) / 2) : TILE_ROWS * blocks * 16;
}
