// Places of the parts of a vocabulary table's rows, and functions that take quads of elements out of them (layout in abi.h). For shaders that can
// read words: word_at(16-byte index) and small_word_at(4-byte index).

// A row of a table: the 16-byte word its tile begins with, its place in the tile, and the blocks of its rest.
struct TableRow {
  uint tile, row;
};
uint table_tile_words(uint format, uint rest) { return TILE_ROWS * (4 * TABLE_SCALES(format, rest) + TABLE_PAIRS(rest)) / 4; }  // of 16 bytes

// Word k of a part of which a row has `count` words, `before` of other parts coming first.
uvec4 part_word(TableRow r, uint before, uint k, uint count) { return word_at(r.tile + before * TILE_ROWS + IN_TILE(r.row, k, count)); }
uvec4 row_header(TableRow r) { return word_at(r.tile + r.row); }
// The scales of blocks 2j and 2j + 1 of the rest.
uint scales_word(TableRow r, uint j, uint format, uint rest) {
  return small_word_at((r.tile + TABLE_SCALES(format, rest) * TILE_ROWS) * 4 + IN_TILE(r.row, j, TABLE_PAIRS(rest)));
}
// A norm as a row's header has it, finite.
float norm_of(uint word) { return min(scale_of(word), 3e38); }

// Elements 4j .. 4j + 3 of a block as signed bytes, from its words of planes 0 and 1, the word of plane 2 and that of plane 3 that hold the quad.
// With four bits, 16 times the value.
uint quad_of_four(uint first, uint second, uint two, uint j) {
  const uint b = j == 0 ? second >> 1 : second << (j == 0 ? 0 : j - 1);
  const uint c = j < 2 ? two >> 2 : two << (2 * (j < 2 ? 0 : j / 2 - 1));
  return ((first << j) & 0x80808080u) | (b & 0x40404040u) | (c & 0x30303030u);
}
uint quad_of_eight(uint first, uint second, uint two, uint four, uint j) {
  return quad_of_four(first, second, two, j) | ((four >> (j < 4 ? 4 : 0)) & 0x0f0f0f0fu);
}

// The bits of a that the mask has, and the others of b. AMD's compiler makes one instruction of the first form, Adreno's fewer of the second.
#ifdef WEFT_SUBGROUP
uint mixed(uint mask, uint a, uint b) { return b ^ (mask & (a ^ b)); }
#else
uint mixed(uint mask, uint a, uint b) { return (a & mask) | (b & ~mask); }
#endif

// The first four bits of a whole block, from its words of planes 0, 1 and 2: those of quad j in the upper half of each byte of component j, those of
// quad j + 4 in the lower half. Joining two planes before taking quads out of them takes fewer instructions than going quad by quad.
uvec4 fours_of(uint first, uint second, uvec2 two) {
  const uint even = mixed(0xaaaaaaaau, first, second >> 1), odd = mixed(0xaaaaaaaau, first << 1, second);  // quads 0, 2, 4, 6 and 1, 3, 5, 7
  return uvec4(mixed(0xccccccccu, even, two.x >> 2), mixed(0xccccccccu, odd, two.y >> 2), mixed(0xccccccccu, even << 2, two.x), mixed(0xccccccccu, odd << 2, two.y));
}
// Quad j of fours_of(), 16 times the values; the lower half of each byte has other bits.
uint upper_four(uvec4 fours, uint j) { return j < 4 ? fours[j] : fours[j % 4] << 4; }
