// Where the parts of a vocabulary table's rows lie, and how quads of elements come out of them (layout in abi.h). For shaders that can read
// words: word_at(16-byte index) and small_word_at(4-byte index).

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
// Of four bits, 16 times the value.
uint quad_of_four(uint first, uint second, uint two, uint j) {
  const uint b = j == 0 ? second >> 1 : second << (j == 0 ? 0 : j - 1);
  const uint c = j % 4 == 0 ? two >> 2 : two << (2 * (j % 4 == 0 ? 0 : j % 4 - 1));
  return ((first << j) & 0x80808080u) | (b & 0x40404040u) | (c & 0x30303030u);
}
uint quad_of_eight(uint first, uint second, uint two, uint four, uint j) {
  return quad_of_four(first, second, two, j) | ((four >> (4 * (j % 2))) & 0x0f0f0f0fu);
}
