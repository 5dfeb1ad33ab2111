// y = x W^T for the tokens of a pass: TOKENS at once per lane, one when decoding.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/rows.glsl"

layout(constant_id = 4) const uint BIAS = 0;  // 1: there are biases
layout(constant_id = 5) const uint ADD = 0;   // 1: y += x W^T

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };  // (rows)
layout(push_constant) uniform Push { MatmulPush p; };

// Grid: x ROW_TILES tiles of the slice, y a group of TOKENS tokens.
void main() {
  const uint first = p.first_token + gl_WorkGroupID.y * TOKENS;
  if (first > 0 && state.pos + first >= state.end) return;
  float sums[SUMS];
  rows_dot(sums, p.cols, p.rows, p.in_stride, gl_WorkGroupID.y * TOKENS, gl_WorkGroupID.x * ROW_TILES);
  if (gl_LocalInvocationID.y > 0) return;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = gl_WorkGroupID.x * ROW_TILES * TILE_ROWS + lane_row(i);
    if (row >= p.rows) continue;
    const float shift = BIAS != 0 ? bias[p.row_base + row] : 0;
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
      const uint slot = (first + t) * p.out_stride + p.row_base + row;
      const float sum = BIAS != 0 ? sums[t * ROW_TILES + i] + shift : sums[t * ROW_TILES + i];
      y[slot] = ADD != 0 ? y[slot] + sum : sum;
    }
  }
}
