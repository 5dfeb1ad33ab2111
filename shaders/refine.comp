// Reads the next plane of the listed rows, whose bounds have reached the logit that they must, and lists those whose new bounds still reach it: for
// the plane after that, or for computing.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/product.glsl"
#include "lib/planes.glsl"

layout(std430, binding = 2) buffer State { StepState state; };
layout(std430, binding = 3) readonly buffer AllowedRows { uint allowed_rows[]; };
layout(std430, binding = 4) buffer Lists { uint lists[]; };
layout(constant_id = 4) const uint STAGE = 0;  // 0: signs, 1: two bits, 2: four bits
layout(constant_id = 5) const uint LISTED = 0;
layout(push_constant) uniform Push { RefinePush p; };
#include "lib/estimate.glsl"
#include "lib/lists.glsl"

const float SLACK = 1.0 / 524288;

// Skips work that no lane needs. A software driver computes both sides of a branch, but only those iterations of a loop that some lane takes.
#ifdef WEFT_TEXEL
#extension GL_KHR_shader_subgroup_vote : require
#define WHERE(needed) for (bool turn = subgroupAny(needed); turn; turn = false)
#else
#define WHERE(needed) if (needed)
#endif

// The lane's rows. Rows that are not wanted read any row.
bool wanted[ROW_TILES];
uint positions[ROW_TILES], ids[ROW_TILES];
uint wanted_rows() {
  uint count = 0;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) count += wanted[i] ? 1 : 0;
  return count;
}

void refine_rows(uint rest) {
  const uint tile_words = table_tile_words(FORMAT, rest);
  const Known known = known_of(rest);
  TableRow table_rows[ROW_TILES];
  Row rows[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = min(ids[i] - p.row_base, p.slice_rows - 1);
    table_rows[i] = TableRow(row / TILE_ROWS * tile_words, row % TILE_ROWS);
    rows[i] = row_at(table_rows[i]);  // not after the loops, as in estimate: NVK's register allocator gives up then, of Maxwell and Pascal
  }
  float leading[ROW_TILES], products[ROW_TILES];
  int counts[ROW_TILES], of_signs[ROW_TILES];
  const bool signs_known = state.head.mode != HEAD_LEADING;  // by the estimates
  if (STAGE > 0) leading_products(leading, rows, known);
  if (STAGE < 2) count_plane(counts, table_rows, STAGE == 0 ? TABLE_PLANE_0 : TABLE_PLANE_1(rest), rest);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) of_signs[i] = 0;
  if (STAGE == 1) WHERE(!signs_known) count_plane(of_signs, table_rows, TABLE_PLANE_0, rest);
  if (STAGE == 2) four_bit_products(products, table_rows, rest);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const float estimate = uintBitsToFloat(lists[LIST_ESTIMATES(p.rows) + positions[i]]);
    float needed = uintBitsToFloat(lists[LIST_NEEDED(p.rows) + positions[i]]) - leading_error(rows[i], known);
    Estimate e;
    if (STAGE == 0) {
      e = with_signs(rows[i], estimate, known.bit_scale * (known.bit_sum - 2 * float(counts[i])), known);
    } else if (STAGE == 1) {
      // Recovers the signs from the estimate. SLACK is more than this loses, and has the same factor as the signs in with_two_bits().
      const float slack = (abs(estimate) + abs(leading[i])) * SLACK;
      float signs = rows[i].factor > 0 ? (estimate - leading[i]) / rows[i].factor : 0;
      if (!signs_known) signs = known.bit_scale * (known.bit_sum - 2 * float(of_signs[i]));
      e = with_two_bits(rows[i], leading[i], signs, float(counts[i]), known);
      needed -= slack + (rows[i].factor > 0 ? 2 * scale_of(rows[i].more.x) / rows[i].factor * slack : 0);
    } else {
      e = with_four_bits(rows[i], leading[i], products[i], known);
    }
    wanted[i] = wanted[i] && e.value + e.error >= needed;
  }
}

// Grid: WORKGROUP_ROWS places of the stage's list a workgroup.
void main() {
  const uint rest = (p.cols + BLOCK - 1) / BLOCK - 1, listed = state.head.refine_counts[STAGE];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint place = gl_WorkGroupID.x * WORKGROUP_ROWS + lane_row(i);
    positions[i] = lists[LIST_REFINE(p.rows, STAGE) + min(place, listed - 1)];
    ids[i] = LISTED != 0 ? allowed_rows[positions[i]] : positions[i];
    wanted[i] = place < listed && ids[i] - p.row_base < p.slice_rows;  // other slices have dispatches of their own
  }
  WHERE(wanted_rows() > 0) refine_rows(rest);
  uint place;
  if (STAGE + 1 < ESTIMATE_STAGES(FORMAT)) {
    APPEND(wanted_rows(), state.head.refine_counts[STAGE + 1], place)
    GROUPS_FOR(state.head.refine[STAGE + 1].x, WORKGROUP_ROWS)
  } else {
    APPEND(wanted_rows(), state.head.exact_count, place)
    GROUPS_FOR(state.head.exact.x, WORKGROUP_ROWS)
  }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    if (!wanted[i]) continue;
    if (STAGE + 1 < ESTIMATE_STAGES(FORMAT))
      lists[LIST_REFINE(p.rows, STAGE + 1) + place++] = positions[i];
    else
      lists[LIST_IDS(p.rows) + place++] = ids[i];
  }
}
