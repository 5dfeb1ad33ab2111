// Vocabulary projection: logits of every row of a slice of the table for TOKENS hidden states, or of each workgroup's rows only the best. The table has
// a basis of its own, or is one of whole values, as a layer's matrix.
// Variants: subgroup texel
// Optional: logits candidates
// Full subgroups: project_subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#define WEFT_SMALL_GROUPS
#define WEFT_STEP_ID 7
#include "lib/table.glsl"
#include "lib/rows.glsl"
#include "lib/best_lane.glsl"
#include "lib/finite.glsl"

layout(constant_id = 5) const uint BEST = 0;  // 1: candidates, as sample would leave them of a greedy choice, rather than logits
layout(constant_id = 6) const uint LAYOUT = TABLE_PLANES;

layout(std430, binding = 2) writeonly buffer Output { float logits[]; };              // (tokens, out_stride)
layout(std430, binding = 3) writeonly buffer Candidates { Candidate candidates[]; };  // (tokens, out_stride)
layout(push_constant) uniform Push { ProjectPush p; };

#ifdef WEFT_TEXEL
Candidate best_of_workgroup(Candidate best) {
  [[unroll]] for (uint i = 0; i < 3; ++i) {
    const uint other = gl_SubgroupInvocationID ^ (1 << i);
    const Candidate theirs = Candidate(subgroupShuffle(best.score, other), subgroupShuffle(best.id, other));
    if (better(theirs, best)) best = theirs;
  }
  return best;
}
#else
Candidate best_of_workgroup(Candidate best) {
  barrier();                             // the last token's has been read
  return best_lane(best, invocation());  // parts but the first have no sums
}
#endif

void planes_dot(out float sums[SUMS]) {
  const uint last_tile = (p.rows - 1) / TILE_ROWS, tile_words = table_tile_words(FORMAT, (p.cols + BLOCK - 1) / BLOCK - 1);
  TableRow rows[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    // A tile too many reads the last one again: cheaper than a branch around the loads.
    const uint row = gl_WorkGroupID.x * WORKGROUP_ROWS + lane_row(i);
    rows[i] = TableRow(min(row / TILE_ROWS, last_tile) * tile_words, row % TILE_ROWS);
  }
  table_dot(sums, rows, p.cols, p.in_stride, 0);
}

// Grid: x WORKGROUP_ROWS rows of the slice.
void main() {
  float sums[SUMS];
  if (LAYOUT == TABLE_VALUES)
    rows_dot(sums, p.cols, 0, p.rows, p.in_stride, 0, gl_WorkGroupID.x * WORKGROUP_ROWS);
  else
    planes_dot(sums);
  if (BEST != 0) {
    [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
      Candidate best = NO_CANDIDATE;
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
        const uint row = gl_WorkGroupID.x * WORKGROUP_ROWS + lane_row(i);
        const Candidate candidate = Candidate(sums[t * ROW_TILES + i], p.row_base + row);
        if (row < p.rows && is_finite(candidate.score) && better(candidate, best)) best = candidate;
      }
      best = best_of_workgroup(best);
      if (invocation() == 0) candidates[(p.first_token + t) * p.out_stride + p.first_group + gl_WorkGroupID.x] = best;
    }
    return;
  }
  if (part() > 0) return;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = gl_WorkGroupID.x * WORKGROUP_ROWS + lane_row(i);
    if (row >= p.rows) continue;
    [[unroll]] for (uint t = 0; t < TOKENS; ++t)
      logits[(p.first_token + t) * p.out_stride + p.row_base + row] = sums[t * ROW_TILES + i];
  }
}
