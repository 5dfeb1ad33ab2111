// y = x W^T of the expert that each token has chosen: the workgroups find its rows by the choice on the device, and nobody reads
// another expert's.
// Variants: subgroup texel
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/rows.glsl"

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Chosen { RoutedExpert chosen[]; };  // (pass tokens, used)
layout(push_constant) uniform Push { MatmulExpertPush p; };

// Grid: x ROW_TILES tiles of an expert, y the tokens.
void main() {
  const uint token = gl_WorkGroupID.y;
  if (token > 0 && state.pos + token >= state.end) return;
  const RoutedExpert routed = chosen[token * p.used + p.rank];
  const uint first = gl_WorkGroupID.x * ROW_TILES;                     // tile of the expert
  const int in_slice = int(routed.expert * p.tiles + first) - int(p.slice_first);
  if (in_slice + int(ROW_TILES) <= 0 || in_slice >= int(p.slice_tiles)) return;
  float sums[SUMS];
  rows_dot(sums, p.cols, p.slice_tiles * TILE_ROWS, p.in_stride, token, uint(in_slice) * TILE_ROWS);
  if (part() > 0) return;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = first * TILE_ROWS + lane_row(i);
    const int tile = in_slice + int(lane_row(i) / TILE_ROWS);
    if (row >= p.rows || tile < 0 || tile >= int(p.slice_tiles)) continue;
    const uint at = token * p.out_stride + row;
    y[at] = p.accumulate != 0 ? y[at] + routed.weight * sums[i] : sums[i];
  }
}
