// How a layer matrix's tiles lie (abi.h), by FORMAT, which the including shader declares.

const bool PACKED = FORMAT >= FORMAT_Q6;  // native: numbers of 2 to 6 bits in the order of super-blocks
const bool SUPER = FORMAT >= FORMAT_Q6 && FORMAT <= FORMAT_Q4K || FORMAT >= FORMAT_Q3K;  // super-blocks
const bool FIFTH = FORMAT == FORMAT_Q5_0 || FORMAT == FORMAT_Q5_1;                        // the fifth bits lie after a tile's words
const bool THREE = FORMAT == FORMAT_Q3K || FORMAT == FORMAT_IQ2 || FORMAT == FORMAT_IQ1;  // three bits a number
const uint BITS = FORMAT == FORMAT_Q6 ? 6 : FORMAT == FORMAT_Q5K || FIFTH ? 5 : THREE ? 3 : FORMAT == FORMAT_Q2K ? 2 : 4;  // of a number, in a native format
const uint LOWER = BITS < 4 ? 2 : 4;                           // of these, those that a block's words have
const uint SCALES = FORMAT == FORMAT_Q6 || THREE || FORMAT == FORMAT_Q2K ? 2 : 1;  // of a block: its halves may have one each
const bool MINIMA = FORMAT == FORMAT_Q4 || FORMAT == FORMAT_Q5K || FORMAT == FORMAT_Q4K || FORMAT == FORMAT_Q5_1 || FORMAT == FORMAT_Q2K;  // blocks have a minimum, or two
const uint BLOCK_WORDS = FORMAT == FORMAT_Q8 ? 2 : FORMAT == FORMAT_Q4 || PACKED ? 1 : 4;  // 16-byte words of a block of a row; SUPER: of lower bits; of fewer than four bits, of two blocks
// Notes: the 32-bit words after a tile's values: the scales of two blocks, a block's scale and minimum, or, of q6, two super-blocks' d, of q2k
// a super-block's d and dmin.
const bool PAIRS = FORMAT == FORMAT_Q8 || FORMAT == FORMAT_Q4_0 || FORMAT == FORMAT_Q5_0 || FORMAT == FORMAT_MXFP4 || FORMAT == FORMAT_IQ4_NL;  // notes are the scales of two blocks
const bool NOTED = PAIRS || FORMAT == FORMAT_Q4 || FORMAT == FORMAT_Q6 || FORMAT == FORMAT_Q2K || FORMAT == FORMAT_Q5_1;
const uint RUN = PAIRS ? 2 : FORMAT == FORMAT_Q6 ? 2 * SUPER_BLOCKS : FORMAT == FORMAT_Q2K ? SUPER_BLOCKS : 1;  // blocks of a word of notes

const uint UPPER = PACKED ? BITS - LOWER : 0;            // 32-bit words of upper bits of a block
const uint OF_UPPER = UPPER > 0 ? 4 / UPPER : SUPER_BLOCKS;  // blocks of a 16-byte word of these

// 16-byte words of a row.
uint row_words(uint blocks) { return SUPER ? blocks / SUPER_BLOCKS * SUPER_WORDS(BITS) : blocks * BLOCK_WORDS; }
// The first word of a block, counted in its row.
uint block_word(uint block) {
  if (!SUPER) return block * BLOCK_WORDS;
  const uint b = block % SUPER_BLOCKS;
  return block / SUPER_BLOCKS * SUPER_WORDS(BITS) + 1 + (UPPER > 0 ? b / OF_UPPER + 1 : 0) + b * LOWER / 4;
}

// 32-bit words of a tile before its fifth bits, before its notes, and all of them.
uint words_before_fifth(uint blocks) { return TILE_ROWS * 4 * row_words(blocks); }
uint words_before_notes(uint blocks) { return words_before_fifth(blocks) + (FIFTH ? TILE_ROWS * blocks : 0); }
uint tile_words(uint blocks) { return words_before_notes(blocks) + (NOTED ? TILE_ROWS * ((blocks + RUN - 1) / RUN) : 0); }
