// Dot products of a vocabulary table's rows with TOKENS inputs in the table's basis, every bit of them. Everything is `precise` and in a fixed
// order, so that a row's product is the same to the last bit whichever shader, lane or list of rows asks for it: Vulkan's + and * of floats are
// correctly rounded, and nothing is fused or reordered. The heads that read less than every row rest on that.
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

// The leading columns, in units of their scale.
void leading_weights(out vec4 weights[8], TableRow r, uint rest) {
  [[unroll]] for (uint k = 0; k < 2; ++k) {
    const uvec4 high = part_word(r, 0, k, 2), low = part_word(r, TABLE_LOW(FORMAT, rest), k, 2);
    [[unroll]] for (uint j = 0; j < 4; ++j) weights[k * 4 + j] = signed_bytes(high[j]) + unsigned_bytes(low[j]) * (1.0 / 256);
  }
}

// What three planes have of four blocks, as words of 16 bytes.
struct FourBlocks {
  uvec4 first, second, two[2];
};

// Block b of four, in units of its scale. whole: its word of plane 3; bytes: its words of plane 4.
void rest_weights(out vec4 weights[8], FourBlocks four, uint b, uvec4 whole, uvec4 bytes[2]) {
  [[unroll]] for (uint j = 0; j < 8; ++j) {
    const uint two = four.two[b / 2][b % 2 * 2 + j / 4];
    if (FORMAT == FORMAT_Q4)
      weights[j] = unsigned_bytes(quad_of_four(four.first[b], four.second[b], two, j) >> 4) - 8;
    else
      weights[j] = signed_bytes(quad_of_eight(four.first[b], four.second[b], two, whole[j / 2], j));
    if (FORMAT == FORMAT_F16) weights[j] += unsigned_bytes(bytes[j / 4][j % 4]) * (1.0 / 256);
  }
}

// sums: products of rows with the bound inputs first_token + t. Valid in lanes of part 0 (gl_LocalInvocationID.y == 0); every lane of the
// workgroup must call it. cols: of the model.
void table_dot(out float sums[SUMS], TableRow rows[ROW_TILES], uint cols, uint in_stride, uint first_token) {
  const uint rest = (cols + BLOCK - 1) / BLOCK - 1, quads = TABLE_QUADS(rest), pairs = TABLE_PAIRS(rest), stride = in_stride / 4;
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0;
  vec4 weights[8];
  if (gl_LocalInvocationID.y == 0)
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      leading_weights(weights, rows[i], rest);
      add_block(sums, i, weights, scale_of(note_word(rows[i], 0, FORMAT, rest)), 0, stride, first_token);
    }
  // Four blocks at a time: a word of planes 0 and 1. The words of a plane are loaded for all rows in the order they lie in.
  for (uint quad = gl_LocalInvocationID.y; quad < quads; quad += SPLIT) {
    FourBlocks four[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) four[i].first = part_word(rows[i], TABLE_PLANE_0, quad, quads);
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) four[i].second = part_word(rows[i], TABLE_PLANE_1(rest), quad, quads);
    [[unroll]] for (uint k = 0; k < 2; ++k)
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
        four[i].two[k] = part_word(rows[i], TABLE_PLANE_2(rest), min(quad * 2 + k, pairs - 1), pairs);
    [[unroll]] for (uint b = 0; b < 4; ++b) {
      const uint block = quad * 4 + b;
      if (block < rest) {
        uvec4 whole[ROW_TILES], bytes[ROW_TILES][2];
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
          if (FORMAT != FORMAT_Q4) whole[i] = part_word(rows[i], TABLE_PLANE_3(rest), block, rest);
          if (FORMAT == FORMAT_F16)
            [[unroll]] for (uint k = 0; k < 2; ++k) bytes[i][k] = part_word(rows[i], TABLE_PLANE_4(rest), block * 2 + k, rest * 2);
        }
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
          const uint scales = note_word(rows[i], NOTE_SCALES + block / 2, FORMAT, rest);
          rest_weights(weights, four[i], b, whole[i], bytes[i]);
          add_block(sums, i, weights, scale_of(b % 2 == 0 ? scales : scales >> 16), block + 1, stride, first_token);
        }
      }
    }
  }
  join_parts(sums);
}
