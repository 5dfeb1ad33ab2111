// Embedding gather: rows of the vocabulary table for the tokens of a pass, as floats.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/half.glsl"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };  // the slice's tiles
layout(std430, binding = 0) readonly buffer Scales { uint scales[]; };
layout(std430, binding = 1) readonly buffer State { StepState state; };
layout(std430, binding = 2) readonly buffer History { uint history[]; };
layout(std430, binding = 3) writeonly buffer Output { float x[]; };  // (pass tokens, stride)
layout(push_constant) uniform Push { GatherPush p; };

// Grid: one lane a 16-byte word of the row; one y a token of the pass.
void main() {
  const uint token = gl_WorkGroupID.y;
  if (state.pos + token >= state.end) return;
  const uint id = history[state.pos + token];
  if (id < p.row_base || id - p.row_base >= p.rows) return;  // another slice holds this row
  const uint tile_index = (id - p.row_base) / TILE_ROWS, row = id % TILE_ROWS;
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK;
  const uint word = gl_GlobalInvocationID.x;

  if (FORMAT == FORMAT_Q8) {
    if (word >= blocks * 2) return;
    const uint pairs = (blocks + 1) / 2;
    const uint tile = tile_index * (blocks * 2 * TILE_ROWS + pairs * (TILE_ROWS / 4));
    const uvec4 bytes = words[tile + IN_TILE(row, word, blocks * 2)];
    const uint block = word / 2;
    const uint pair = scales[(tile + blocks * 2 * TILE_ROWS) * 4 + IN_TILE(row, block / 2, pairs)];
    const float scale = scale_of(block % 2 == 0 ? pair : pair >> 16);
    for (uint i = 0; i < 16; ++i) {
      const int value = int(bytes[i / 4] << (24 - 8 * (i % 4))) >> 24;
      if (word * 16 + i < p.cols) x[token * p.stride + word * 16 + i] = scale * float(value);
    }
  } else {
    if (word >= blocks * 4) return;
    const uvec4 halves = words[tile_index * blocks * 4 * TILE_ROWS + IN_TILE(row, word, blocks * 4)];
    for (uint i = 0; i < 8; ++i) {
      const float value = unpackHalf2x16(halves[i / 2])[i % 2];
      if (word * 8 + i < p.cols) x[token * p.stride + word * 8 + i] = value;
    }
  }
}
