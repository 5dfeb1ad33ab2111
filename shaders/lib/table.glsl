// Dot products of a vocabulary table's rows with TOKENS inputs, every plane of them. Everything is `precise` and in a fixed order, so that
// a row's product is the same to the last bit whichever shader, lane or list of rows asks for it: Vulkan's + and * of floats are correctly
// rounded, and nothing is fused or reordered. The certified projection rests on that.
#include "lib/product.glsl"
#include "lib/planes.glsl"

// A block's product with the inputs, added to the sums of row i.
void add_block(inout float sums[SUMS], uint i, vec4 weights[8], float scale, uint block, uint stride, uint first_token) {
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    const EightInputs x = eight_inputs((first_token + t) * stride + block * (BLOCK / 4));
    precise float product = 0;
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      const vec4 v = floats_of(x, j);
      precise const float a = weights[j].x * v.x + weights[j].y * v.y;
      precise const float b = weights[j].z * v.z + weights[j].w * v.w;
      product = product + (a + b);
    }
    precise const float sum = sums[t * ROW_TILES + i] + scale * product;
    sums[t * ROW_TILES + i] = sum;
  }
}

void q8_weights(out vec4 weights[8], uvec2 high, uvec2 middle, uvec4 low) {
  [[unroll]] for (uint j = 0; j < 8; ++j)
    weights[j] = signed_bytes(q8_quad(high[j / 4], middle[j / 4], j < 4 ? low.xy : low.zw, j % 4));
}

void q4_weights(out vec4 weights[8], uvec2 high, uvec2 low, uint line) {
  const float scale = scale_of(line), minimum = scale_of(line >> 16);
  [[unroll]] for (uint j = 0; j < 8; ++j) weights[j] = q4_quad(high[j / 4], low[j / 4], j % 4, scale, minimum);
}

// sums: products of rows of tiles that begin at 32-bit words tiles[i], with the bound inputs first_token + t. Valid in lanes of part 0
// (gl_LocalInvocationID.y == 0); every lane of the workgroup must call it.
void table_dot(out float sums[SUMS], uint tiles[ROW_TILES], uint rows[ROW_TILES], uint cols, uint in_stride, uint first_token) {
  const uint blocks = (cols + BLOCK - 1) / BLOCK, pairs = blocks / 2, stride = in_stride / 4;
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0;
  vec4 weights[8];
  // Two blocks at a time: a word of planes 0 and 1. The words of a plane are loaded for all rows in the order they lie in.
  for (uint pair = gl_LocalInvocationID.y; pair < pairs; pair += SPLIT) {
    if (FORMAT == FORMAT_F16) {
      [[unroll]] for (uint b = 0; b < 2; ++b) {
        const uint block = pair * 2 + b;
        uvec4 high[ROW_TILES][2], low[ROW_TILES][2];
        [[unroll]] for (uint k = 0; k < 2; ++k)
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) high[i][k] = word_at(tiles[i] / 4 + IN_TILE(rows[i], block * 2 + k, blocks * 2));
        [[unroll]] for (uint k = 0; k < 2; ++k)
          [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
            low[i][k] = word_at(tiles[i] / 4 + blocks * 2 * TILE_ROWS + IN_TILE(rows[i], block * 2 + k, blocks * 2));
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
          [[unroll]] for (uint j = 0; j < 8; ++j) weights[j] = f16_quad(high[i][j / 4][j % 4], low[i][j / 4][j % 4]);
          add_block(sums, i, weights, 1, block, stride, first_token);
        }
      }
      continue;
    }
    uvec4 high[ROW_TILES], second[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) high[i] = word_at(tiles[i] / 4 + IN_TILE(rows[i], pair, pairs));
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
      second[i] = word_at(tiles[i] / 4 + IN_TILE(rows[i], pair, pairs) + blocks * (TILE_ROWS / 2));
    if (FORMAT == FORMAT_Q8) {
      uvec4 low[ROW_TILES][2];
      [[unroll]] for (uint b = 0; b < 2; ++b)
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) low[i][b] = word_at(tiles[i] / 4 + blocks * TILE_ROWS + IN_TILE(rows[i], pair * 2 + b, blocks));
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
        const uint scales = q8_small_word(tiles[i], rows[i], pair, blocks);
        q8_weights(weights, high[i].xy, second[i].xy, low[i][0]);
        add_block(sums, i, weights, scale_of(scales), pair * 2, stride, first_token);
        q8_weights(weights, high[i].zw, second[i].zw, low[i][1]);
        add_block(sums, i, weights, scale_of(scales >> 16), pair * 2 + 1, stride, first_token);
      }
    } else {
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
        q4_weights(weights, high[i].xy, second[i].xy, q4_small_word(tiles[i], rows[i], pair * 2, blocks));
        add_block(sums, i, weights, 1, pair * 2, stride, first_token);
        q4_weights(weights, high[i].zw, second[i].zw, q4_small_word(tiles[i], rows[i], pair * 2 + 1, blocks));
        add_block(sums, i, weights, 1, pair * 2 + 1, stride, first_token);
      }
    }
  }
  if (blocks % 2 == 1 && gl_LocalInvocationID.y == 0)  // an odd last block
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      const uint block = blocks - 1;
      float scale = 1;
      if (FORMAT == FORMAT_Q8) {
        q8_weights(weights, two_bit_word(tiles[i], rows[i], 0, block, blocks), two_bit_word(tiles[i], rows[i], 1, block, blocks),
                   q8_low_word(tiles[i], rows[i], block, blocks));
        scale = scale_of(q8_small_word(tiles[i], rows[i], block / 2, blocks));
      } else if (FORMAT == FORMAT_Q4) {
        q4_weights(weights, two_bit_word(tiles[i], rows[i], 0, block, blocks), two_bit_word(tiles[i], rows[i], 1, block, blocks),
                   q4_small_word(tiles[i], rows[i], block, blocks));
      } else {
        [[unroll]] for (uint k = 0; k < 2; ++k) {
          const uint at = tiles[i] / 4 + IN_TILE(rows[i], block * 2 + k, blocks * 2);
          const uvec4 high = word_at(at), low = word_at(at + blocks * 2 * TILE_ROWS);
          [[unroll]] for (uint j = 0; j < 4; ++j) weights[k * 4 + j] = f16_quad(high[j], low[j]);
        }
      }
      add_block(sums, i, weights, scale, block, stride, first_token);
    }
  join_parts(sums);
}
