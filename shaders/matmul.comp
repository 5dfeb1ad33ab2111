// y = x W^T for the tokens of a pass: TOKENS at once per lane, one when decoding.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/rows.glsl"

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(push_constant) uniform Push { MatmulPush p; };

// Grid: x a tile of the slice, y a group of TOKENS tokens.
void main() {
  const uint first = gl_WorkGroupID.y * TOKENS;
  if (first > 0 && state.pos + first >= state.end) return;
  float acc[TOKENS];
  rows_dot(acc, p.cols, p.in_stride, first);
  const uint row = gl_WorkGroupID.x * TILE_ROWS + gl_LocalInvocationID.x;
  if (gl_LocalInvocationID.y > 0 || row >= p.rows) return;
  for (uint t = 0; t < TOKENS; ++t) {
    const uint slot = (first + t) * p.out_stride + p.row_base + row;
    y[slot] = p.accumulate != 0 ? y[slot] + acc[t] : acc[t];
  }
}
