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
    const uvec4 high = part_word(r, TABLE_LEADING, k, 2), low = part_word(r, TABLE_LOW(FORMAT, rest), k, 2);
    [[unroll]] for (uint j = 0; j < 4; ++j) weights[k * 4 + j] = signed_bytes(high[j]) + unsigned_bytes(low[j]) * (1.0 / 256);
  }
}

// A block of the rest in units of its scale, from its words of planes 0 to 2, its word of plane 3 and its words of plane 4.
void rest_weights(out vec4 weights[8], uint first, uint second, uvec2 two, uvec4 low, uvec4 bytes[2]) {
  [[unroll]] for (uint j = 0; j < 8; ++j) {
    if (FORMAT == FORMAT_Q4)
      weights[j] = signed_bytes(quad_of_four(first, second, two[j / 4], j)) * (1.0 / 16);
    else
      weights[j] = signed_bytes(quad_of_eight(first, second, two[j / 4], low[j / 2], j));
    if (FORMAT == FORMAT_F16) weights[j] += unsigned_bytes(bytes[j / 4][j % 4]) * (1.0 / 256);
  }
}

// Blocks 2 pair and 2 pair + 1 of the rest, added to the sums; the last one of an odd number is alone.
void add_pair(inout float sums[SUMS], TableRow rows[ROW_TILES], uint pair, uint rest, uint stride, uint first_token) {
  const uint quads = TABLE_QUADS(rest), pairs = TABLE_PAIRS(rest);
  const bool single = pair * 2 + 1 == rest;
  uvec2 first[ROW_TILES], second[ROW_TILES];
  uvec4 two[ROW_TILES], low[ROW_TILES][2], bytes[ROW_TILES][2][2];
  uint scales[ROW_TILES];
  // The words of a plane are loaded for all rows in the order they lie in.
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uvec4 word = part_word(rows[i], TABLE_PLANE_0, pair / 2, quads);
    first[i] = pair % 2 == 0 ? word.xy : word.zw;
  }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uvec4 word = part_word(rows[i], TABLE_PLANE_1(rest), pair / 2, quads);
    second[i] = pair % 2 == 0 ? word.xy : word.zw;
  }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) two[i] = part_word(rows[i], TABLE_PLANE_2(rest), pair, pairs);
  [[unroll]] for (uint b = 0; b < 2; ++b)
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      if (b == 1 && single) continue;
      if (FORMAT != FORMAT_Q4) low[i][b] = part_word(rows[i], TABLE_PLANE_3(rest), pair * 2 + b, rest);
      if (FORMAT == FORMAT_F16)
        [[unroll]] for (uint k = 0; k < 2; ++k) bytes[i][b][k] = part_word(rows[i], TABLE_PLANE_4(rest), (pair * 2 + b) * 2 + k, rest * 2);
    }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) scales[i] = scales_word(rows[i], pair, FORMAT, rest);
  vec4 weights[8];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    rest_weights(weights, first[i].x, second[i].x, two[i].xy, low[i][0], bytes[i][0]);
    add_block(sums, i, weights, scale_of(scales[i]), pair * 2 + 1, stride, first_token);
    if (single) continue;
    rest_weights(weights, first[i].y, second[i].y, two[i].zw, low[i][1], bytes[i][1]);
    add_block(sums, i, weights, scale_of(scales[i] >> 16), pair * 2 + 2, stride, first_token);
  }
}

// sums: products of rows with the bound inputs first_token + t. Valid in lanes of part 0; every lane of the
// workgroup must call it. cols: of the model.
void table_dot(out float sums[SUMS], TableRow rows[ROW_TILES], uint cols, uint in_stride, uint first_token) {
  const uint rest = (cols + BLOCK - 1) / BLOCK - 1, stride = in_stride / 4;
  [[unroll]] for (uint s = 0; s < SUMS; ++s) sums[s] = 0;
  vec4 weights[8];
  if (part() == 0)
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      leading_weights(weights, rows[i], rest);
      add_block(sums, i, weights, scale_of(row_header(rows[i]).x), 0, stride, first_token);
    }
  for (uint pair = part(); pair < TABLE_PAIRS(rest); pair += SPLIT) add_pair(sums, rows, pair, rest, stride, first_token);
  join_parts(sums);
}
