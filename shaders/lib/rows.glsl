// Dot products of a layer matrix's rows with TOKENS inputs. The layout of tiles is in abi.h.
#include "lib/product.glsl"

// 32-bit words of a tile.
uint tile_words(uint blocks) {
  if (FORMAT == FORMAT_Q4) return TILE_ROWS * blocks * 5;
  return FORMAT == FORMAT_Q8 ? TILE_ROWS * (blocks * 8 + (blocks + 1) / 2) : TILE_ROWS * blocks * 16;
}

// A block of a row, and the scale its products are to be multiplied with.
float load_block(out vec4 weights[8], uint tile, uint row, uint block, uint blocks) {
  if (FORMAT == FORMAT_Q8) {
    const uint word = tile / 4 + IN_TILE(row, block * 2, blocks * 2);
    const uvec4 low = word_at(word), high = word_at(word + GROUP_ROWS);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      weights[i] = signed_bytes(low[i]);
      weights[4 + i] = signed_bytes(high[i]);
    }
    const uint pair = small_word_at(tile + blocks * 8 * TILE_ROWS + IN_TILE(row, block / 2, (blocks + 1) / 2));
    return scale_of(block % 2 == 0 ? pair : pair >> 16);
  }
  if (FORMAT == FORMAT_Q4) {
    const uvec4 nibbles = word_at(tile / 4 + IN_TILE(row, block, blocks));
    const uint line = small_word_at(tile + blocks * 4 * TILE_ROWS + IN_TILE(row, block, blocks));
    const float scale = scale_of(line), minimum = scale_of(line >> 16);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      weights[i * 2] = scale * vec4((uvec4(nibbles[i]) >> uvec4(0, 4, 8, 12)) & 15u) + minimum;
      weights[i * 2 + 1] = scale * vec4((uvec4(nibbles[i]) >> uvec4(16, 20, 24, 28)) & 15u) + minimum;
    }
    return 1;
  }
  const uint word = tile / 4 + IN_TILE(row, block * 4, blocks * 4);
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const uvec4 halves = word_at(word + i * GROUP_ROWS);
    weights[i * 2] = vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
    weights[i * 2 + 1] = vec4(unpackHalf2x16(halves.z), unpackHalf2x16(halves.w));
  }
  return 1;
}

// first_tile: of the slice, the first of the workgroup's ROW_TILES.
// sums: products of the lane's rows with the bound inputs first_token + t. Valid in lanes of part 0 (gl_LocalInvocationID.y == 0); every
// lane of the workgroup must call it. What it gives for rows behind `rows` means nothing.
void rows_dot(out float sums[SUMS], uint cols, uint rows, uint in_stride, uint first_token, uint first_tile) {
  const uint last_tile = (rows - 1) / TILE_ROWS;
  const uint row = gl_LocalInvocationID.x;
  const uint blocks = (cols + BLOCK - 1) / BLOCK, words_of_tile = tile_words(blocks);
  const uint stride = in_stride / 4;
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0;
  for (uint block = gl_LocalInvocationID.y; block < blocks; block += SPLIT) {
    vec4 weights[ROW_TILES][8];
    float scale[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      // A tile too many reads the last one again: cheaper than a branch around the loads.
      const uint tile = min(first_tile + i, last_tile);
      scale[i] = load_block(weights[i], tile * words_of_tile, row, block, blocks);
    }
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
      const uint x = (first_token + t) * stride + block * (BLOCK / 4);
      float products[ROW_TILES];
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] = 0;
#define ADD(j)                                                                                              \
  {                                                                                                         \
    const vec4 v = floats_at(x + j);                                                                          \
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] += dot(weights[i][j], v);                   \
  }
      ADD(0) ADD(1) ADD(2) ADD(3) ADD(4) ADD(5) ADD(6) ADD(7)
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[t * ROW_TILES + i] += scale[i] * products[i];
    }
  }
  join_parts(sums);
}
