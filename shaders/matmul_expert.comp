// y = x W^T + bias of the experts that each token has chosen: the workgroups find their rows by the choice on the device, and nobody reads
// another expert's.
// Variants: subgroup texel
// Optional: biases
// Full subgroups: matmul_expert_subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/rows.glsl"

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) buffer Output { float y[]; };  // (pass tokens, used, out_stride); of sums (pass tokens, out_stride)
layout(std430, binding = 4) readonly buffer Chosen { RoutedExpert chosen[]; };  // (pass tokens, used)
layout(std430, binding = 5) readonly buffer Biases { float biases[]; };         // (experts, rows)
layout(push_constant) uniform Push { MatmulExpertPush p; };

// Grid: x ROW_TILES tiles of an expert, y the tokens, z the choices of a token; of sums 1.
void main() {
  const uint token = gl_WorkGroupID.y, first = gl_WorkGroupID.x * ROW_TILES;  // tile of the expert
  if (token > 0 && state.pos + token >= state.end) return;
  float totals[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) totals[i] = 0;
  const uint from = p.sums != 0 ? 0 : gl_WorkGroupID.z, to = p.sums != 0 ? p.used : from + 1;
  for (uint rank = from; rank < to; ++rank) {
    const RoutedExpert routed = chosen[token * p.used + rank];
    const int in_slice = int(routed.expert * p.tiles + first) - int(p.slice_first);
    if (in_slice + int(ROW_TILES) <= 0 || in_slice >= int(p.slice_tiles)) continue;
    float sums[SUMS];
    if (rank > from) barrier();  // the sums of the expert before are joined
    rows_dot(sums, p.cols, 0, p.slice_tiles * TILE_ROWS, p.in_stride, p.sums != 0 ? token * p.used + rank : token, uint(in_slice) * TILE_ROWS);
    if (part() > 0) continue;
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      const uint row = first * TILE_ROWS + lane_row(i);
      const int tile = in_slice + int(lane_row(i) / TILE_ROWS);
      if (row >= p.rows || tile < 0 || tile >= int(p.slice_tiles)) continue;
      const float value = sums[i] + (p.biased != 0 ? biases[routed.expert * p.rows + row] : 0);
      if (p.sums != 0)
        totals[i] += routed.weight * value;
      else
        y[(token * p.used + rank) * p.out_stride + row] = value;
    }
  }
  if (p.sums == 0 || part() > 0) return;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = first * TILE_ROWS + lane_row(i);
    if (row < p.rows) y[token * p.out_stride + row] += totals[i];
  }
}
