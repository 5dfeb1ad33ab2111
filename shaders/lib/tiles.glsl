// How a layer matrix's tiles lie (abi.h), by FORMAT, which the including shader declares.

// 32-bit words of a tile.
uint tile_words(uint blocks) {
  if (FORMAT == FORMAT_Q4) return TILE_ROWS * blocks * 5;
  return FORMAT == FORMAT_Q8 ? TILE_ROWS * (blocks * 8 + (blocks + 1) / 2) : TILE_ROWS * blocks * 16;
}

const uint BLOCK_WORDS = FORMAT == FORMAT_Q8 ? 2 : FORMAT == FORMAT_Q4 ? 1 : 4;  // 16-byte words of a block of a row
// Notes: the 32-bit words after a tile's values, for q8 the scales of two blocks, for q4 a block's scale and minimum.
const uint RUN = FORMAT == FORMAT_Q8 ? 2 : 1;  // blocks of a word of scales
