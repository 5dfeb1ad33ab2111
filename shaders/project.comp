// Vocabulary projection: logits of every row of a slice of the table for TOKENS hidden states.
#version 450
#extension GL_GOOGLE_include_directive : require
#define WEFT_SMALL_GROUPS
#include "lib/table.glsl"

layout(std430, binding = 2) writeonly buffer Output { float logits[]; };  // (tokens, out_stride)
layout(push_constant) uniform Push { ProjectPush p; };

// Grid: x WORKGROUP_ROWS rows of the slice.
void main() {
  const uint last_tile = (p.rows - 1) / TILE_ROWS, tile_words = table_tile_words(FORMAT, (p.cols + BLOCK - 1) / BLOCK);
  uint tiles[ROW_TILES], rows[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    // A tile too many reads the last one again: cheaper than a branch around the loads.
    const uint row = gl_WorkGroupID.x * WORKGROUP_ROWS + lane_row(i);
    tiles[i] = min(row / TILE_ROWS, last_tile) * tile_words;
    rows[i] = row % TILE_ROWS;
  }
  float sums[SUMS];
  table_dot(sums, tiles, rows, p.cols, p.in_stride, 0);
  if (gl_LocalInvocationID.y > 0) return;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = gl_WorkGroupID.x * WORKGROUP_ROWS + lane_row(i);
    if (row >= p.rows) continue;
    [[unroll]] for (uint t = 0; t < TOKENS; ++t)
      logits[(p.first_token + t) * p.out_stride + p.row_base + row] = sums[t * ROW_TILES + i];
  }
}
