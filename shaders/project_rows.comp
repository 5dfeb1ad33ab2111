// Vocabulary projection of listed rows only: the same sums as project gives, to the last bit.
// Variants: subgroup texel
// Full subgroups: project_rows_subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/table.glsl"

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) readonly buffer Ids { uint ids[]; };
layout(std430, binding = 4) writeonly buffer Output { float logits[]; };
layout(push_constant) uniform Push { ProjectRowsPush p; };

// Grid: x ROW_TILES * TILE_ROWS places of the list.
void main() {
  const uint count = p.leaders != 0 ? state.head.leader_count : state.head.exact_count;
  const uint tile_words = table_tile_words(FORMAT, (p.cols + BLOCK - 1) / BLOCK - 1);
  const uint first = gl_WorkGroupID.x * ROW_TILES * TILE_ROWS;
  if (first >= count) return;
  TableRow rows[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint place = min(first + lane_row(i), count - 1);
    const uint row = min(ids[p.ids_at + place] - p.row_base, p.slice_rows - 1);  // one of another slice reads any row of this
    rows[i] = TableRow(row / TILE_ROWS * tile_words, row % TILE_ROWS);
  }
  float sums[SUMS];
  table_dot(sums, rows, p.cols, 0, 0);
  if (part() > 0) return;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint place = first + lane_row(i);
    if (place < count && ids[p.ids_at + place] - p.row_base < p.slice_rows) logits[p.out_at + place] = sums[i];
  }
}
