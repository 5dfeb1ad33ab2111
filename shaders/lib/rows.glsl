// Dot products of a tile's rows with TOKENS inputs. One lane owns one row, so no sum crosses lanes and no subgroup size is
// assumed; with SPLIT > 1 the columns of a row are shared by SPLIT lanes, summed through shared memory in a fixed order.
// The layout of tiles is in abi.h. The including shader declares its outputs at bindings 2 and up.
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint TOKENS = 1;
layout(constant_id = 2) const uint SPLIT = 1;
layout(local_size_x = TILE_ROWS, local_size_y_id = 2) in;

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };
layout(std430, binding = 0) readonly buffer Scales { uint scales[]; };
layout(std430, binding = 1) readonly buffer Inputs { vec4 inputs[]; };  // (tokens, stride / 4)

shared float partial[SPLIT > 1 ? (SPLIT - 1) * TOKENS * TILE_ROWS : 1];

vec4 signed_bytes(uint word) {
  const int w = int(word);
  return vec4((w << 24) >> 24, (w << 16) >> 24, (w << 8) >> 24, w >> 24);
}

// One 32-column block of q8, without its scale: columns from 4 * x on.
void add_block(inout float acc[TOKENS], uint word, uint x, uint stride) {
  for (uint half_block = 0; half_block < 2; ++half_block) {
    const uvec4 bytes = words[word + half_block * TILE_ROWS];
    for (uint quarter = 0; quarter < 4; ++quarter) {
      const vec4 weights = signed_bytes(bytes[quarter]);
      for (uint t = 0; t < TOKENS; ++t)
        acc[t] += dot(weights, inputs[x + half_block * 4 + quarter + t * stride]);
    }
  }
}

void rows_dot_q8(inout float acc[TOKENS], uint row, uint part, uint blocks, uint x, uint stride) {
  const uint pairs = (blocks + 1) / 2;
  const uint tile = gl_WorkGroupID.x * (blocks * 2 * TILE_ROWS + pairs * (TILE_ROWS / 4));
  const uint first_scale = (tile + blocks * 2 * TILE_ROWS) * 4;
  for (uint pair = part; pair < pairs; pair += SPLIT) {
    const vec2 scale = unpackHalf2x16(scales[first_scale + pair * TILE_ROWS + row]);
    for (uint b = 0; b < 2; ++b) {
      const uint block = pair * 2 + b;
      if (block >= blocks) break;
      float sums[TOKENS];
      for (uint t = 0; t < TOKENS; ++t) sums[t] = 0;
      add_block(sums, tile + block * 2 * TILE_ROWS + row, x + block * (BLOCK / 4), stride);
      for (uint t = 0; t < TOKENS; ++t) acc[t] += scale[b] * sums[t];
    }
  }
}

void rows_dot_f16(inout float acc[TOKENS], uint row, uint part, uint blocks, uint x, uint stride) {
  const uint count = blocks * (BLOCK / 8);
  const uint tile = gl_WorkGroupID.x * count * TILE_ROWS;
  for (uint word = part; word < count; word += SPLIT) {
    const uvec4 halves = words[tile + word * TILE_ROWS + row];
    const vec4 low = vec4(unpackHalf2x16(halves.x), unpackHalf2x16(halves.y));
    const vec4 high = vec4(unpackHalf2x16(halves.z), unpackHalf2x16(halves.w));
    for (uint t = 0; t < TOKENS; ++t)
      acc[t] += dot(low, inputs[x + word * 2 + t * stride]) + dot(high, inputs[x + word * 2 + 1 + t * stride]);
  }
}

// acc[t]: the row's product with input first_token + t. Valid in lanes of part 0 (gl_LocalInvocationID.y == 0); every lane of
// the workgroup must call it.
void rows_dot(out float acc[TOKENS], uint cols, uint in_stride, uint first_token) {
  const uint row = gl_LocalInvocationID.x, part = gl_LocalInvocationID.y;
  const uint blocks = (cols + BLOCK - 1) / BLOCK;
  const uint stride = in_stride / 4;
  for (uint t = 0; t < TOKENS; ++t) acc[t] = 0;
  if (FORMAT == FORMAT_Q8)
    rows_dot_q8(acc, row, part, blocks, first_token * stride, stride);
  else
    rows_dot_f16(acc, row, part, blocks, first_token * stride, stride);
  if (SPLIT > 1) {
    if (part > 0)
      for (uint t = 0; t < TOKENS; ++t) partial[((part - 1) * TOKENS + t) * TILE_ROWS + row] = acc[t];
    barrier();
    if (part == 0)
      for (uint p = 0; p + 1 < SPLIT; ++p)
        for (uint t = 0; t < TOKENS; ++t) acc[t] += partial[(p * TOKENS + t) * TILE_ROWS + row];
  }
}
