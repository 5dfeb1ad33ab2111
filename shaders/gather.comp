// Embedding gather: rows of the vocabulary table for the tokens of a pass, as floats.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/half.glsl"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };  // the slice's tiles
layout(std430, binding = 0) readonly buffer SmallWords { uint small_words[]; };
layout(std430, binding = 1) readonly buffer State { StepState state; };
layout(std430, binding = 2) readonly buffer History { uint history[]; };
layout(std430, binding = 3) writeonly buffer Output { float x[]; };  // (pass tokens, stride)
layout(push_constant) uniform Push { GatherPush p; };

uvec4 word_at(uint i) { return words[i]; }
uint small_word_at(uint i) { return small_words[i]; }
#include "lib/planes.glsl"

// Grid: one lane 16 elements of the row; one y a token of the pass.
void main() {
  const uint token = gl_WorkGroupID.y;
  if (state.pos + token >= state.end) return;
  const uint id = history[state.pos + token];
  if (id < p.row_base || id - p.row_base >= p.rows) return;  // another slice holds this row
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, row = id % TILE_ROWS;
  const uint tile = (id - p.row_base) / TILE_ROWS * table_tile_words(FORMAT, blocks);
  const uint part = gl_GlobalInvocationID.x, block = part / 2;
  if (block >= blocks) return;

  vec4 quads[4];
  if (FORMAT == FORMAT_Q8) {
    const uvec2 high = two_bit_word(tile, row, 0, block, blocks), middle = two_bit_word(tile, row, 1, block, blocks);
    const uvec4 low = q8_low_word(tile, row, block, blocks);
    const uint pair = q8_small_word(tile, row, block / 2, blocks);
    const float scale = scale_of(block % 2 == 0 ? pair : pair >> 16);
    for (uint j = 0; j < 4; ++j) {
      const uint bytes = part % 2 == 0 ? q8_quad(high.x, middle.x, low.xy, j) : q8_quad(high.y, middle.y, low.zw, j);
      for (uint i = 0; i < 4; ++i) quads[j][i] = scale * float(int(bytes << (24 - 8 * i)) >> 24);
    }
  } else if (FORMAT == FORMAT_Q4) {
    const uvec2 high = two_bit_word(tile, row, 0, block, blocks), low = two_bit_word(tile, row, 1, block, blocks);
    const uint line = q4_small_word(tile, row, block, blocks);
    for (uint j = 0; j < 4; ++j) quads[j] = q4_quad(high[part % 2], low[part % 2], j, scale_of(line), scale_of(line >> 16));
  } else {
    const uint at = tile / 4 + IN_TILE(row, part, blocks * 2);
    const uvec4 high = word_at(at), low = word_at(at + blocks * 2 * TILE_ROWS);
    for (uint j = 0; j < 4; ++j) quads[j] = f16_quad(high[j], low[j]);
  }
  for (uint e = 0; e < 16; ++e)
    if (part * 16 + e < p.cols) x[token * p.stride + part * 16 + e] = quads[e / 4][e % 4] * p.scale;
}
