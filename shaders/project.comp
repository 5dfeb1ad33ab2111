// Vocabulary projection: logits of every row of a slice of the table for TOKENS hidden states.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/rows.glsl"

layout(std430, binding = 2) writeonly buffer Output { float logits[]; };  // (TOKENS, out_stride)
layout(push_constant) uniform Push { ProjectPush p; };

// Grid: x a tile of the slice.
void main() {
  float acc[TOKENS];
  rows_dot(acc, p.cols, p.in_stride, 0);
  const uint row = gl_WorkGroupID.x * TILE_ROWS + gl_LocalInvocationID.x;
  if (gl_LocalInvocationID.y > 0 || row >= p.rows) return;
  for (uint t = 0; t < TOKENS; ++t) logits[t * p.out_stride + p.row_base + row] = acc[t];
}
