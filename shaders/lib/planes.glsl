// Where the planes of a vocabulary table lie, and how quads of elements come out of them (layout in abi.h). For shaders that can read
// words: word_at(16-byte index) and small_word_at(4-byte index).

// 32-bit words of a tile.
uint table_tile_words(uint format, uint blocks) {
  if (format == FORMAT_Q4) return TILE_ROWS * (blocks * 4 + Q4_HALF_WORDS(blocks));
  return TILE_ROWS * (format == FORMAT_Q8 ? blocks * 8 + Q8_HALF_WORDS(blocks) : blocks * 16 + F16_HALF_WORDS);
}

// q8 and q4: the 2 bits of a plane (0 or 1) of a block: 16 elements a component. `tile` is the tile's first 32-bit word.
uvec2 two_bit_word(uint tile, uint row, uint plane, uint block, uint blocks) {
  const uint start = tile + plane * 2 * blocks * TILE_ROWS, pairs = blocks / 2;
  if (block / 2 < pairs) {
    const uvec4 word = word_at(start / 4 + IN_TILE(row, block / 2, pairs));
    return block % 2 == 0 ? word.xy : word.zw;
  }
  const uint last = start + pairs * 4 * TILE_ROWS + row * 2;
  return uvec2(small_word_at(last), small_word_at(last + 1));
}
uvec4 q8_low_word(uint tile, uint row, uint block, uint blocks) {
  return word_at((tile + 4 * blocks * TILE_ROWS) / 4 + IN_TILE(row, block, blocks));
}
uint q8_small_word(uint tile, uint row, uint j, uint blocks) {
  return small_word_at(tile + 8 * blocks * TILE_ROWS + IN_TILE(row, j, Q8_HALF_WORDS(blocks)));
}

// |row - plane 0| over the two halves of the columns, and the parts of it that plane 1 leaves. A norm too large for a half stays finite
// here: its bound is large enough, and none is ever infinity times 0.
struct Q8Norms {
  vec2 open, left;
};
Q8Norms q8_norms(uint tile, uint row, uint blocks) {
  const uint word = q8_small_word(tile, row, blocks / 2, blocks), next = q8_small_word(tile, row, blocks / 2 + 1, blocks);
  const bool odd = blocks % 2 == 1;
  const vec2 open = min(vec2(scale_of(odd ? word >> 16 : word), scale_of(odd ? next : word >> 16)), vec2(3e38));
  const uint parts = odd ? next >> 16 : next;
  return Q8Norms(open, vec2(parts & 255u, parts >> 8 & 255u) * (1.0 / 255));
}

// Four bytes: q of elements 4j .. 4j + 3 of the 16 whose 2-bit fields are high and middle and whose 4-bit fields are low (two words).
uint q8_quad(uint high, uint middle, uvec2 low, uint j) {
  const uint a = (high << (6 - 2 * j)) & 0xc0c0c0c0u;
  const uint b = (j < 3 ? middle << (4 - 2 * min(j, 2u)) : middle >> 2) & 0x30303030u;
  const uint c = (low[j / 2] >> (4 * (j % 2))) & 0x0f0f0f0fu;
  return (a | b | c) ^ 0x80808080u;
}

// q4: a block's scale and minimum; behind the blocks' (j == blocks), the norms.
uint q4_small_word(uint tile, uint row, uint j, uint blocks) {
  return small_word_at(tile + 4 * blocks * TILE_ROWS + IN_TILE(row, j, Q4_HALF_WORDS(blocks)));
}
// Four of the 16 elements whose 2-bit fields are high and low.
vec4 q4_quad(uint high, uint low, uint j, float scale, float minimum) {
  const uint bytes = ((high >> (2 * j)) & 0x03030303u) << 2 | ((low >> (2 * j)) & 0x03030303u);
  precise const vec4 values = scale * vec4((uvec4(bytes) >> uvec4(0, 8, 16, 24)) & 15u) + minimum;
  return values;
}

// f16: four elements from a word of each plane.
vec4 f16_quad(uint high, uint low) {
  return vec4(unpackHalf2x16((high & 0xff00ff00u) | (low >> 8 & 0x00ff00ffu)),
              unpackHalf2x16((high << 8 & 0xff00ff00u) | (low & 0x00ff00ffu)));
}

// The upper half of a sum of products of two fields each (abi.h, ESTIMATE_WORDS), its lower half's borrow undone.
int upper_half(int products) {
  const int low = (products << 16) >> 16;
  return (products - low) >> 16;
}
