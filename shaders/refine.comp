// Reads of listed rows the planes that their estimates have not, one by one, as long as a row's bound reaches what it must. Lists for computing what
// still does.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/product.glsl"
#include "lib/planes.glsl"
#ifdef WEFT_TEXEL
#extension GL_KHR_shader_subgroup_vote : require
#endif

layout(std430, binding = 2) buffer State { StepState state; };
layout(std430, binding = 3) readonly buffer AllowedRows { uint allowed_rows[]; };
layout(std430, binding = 4) buffer Lists { uint lists[]; };
layout(constant_id = 4) const uint LISTED = 0;
layout(push_constant) uniform Push { RefinePush p; };
#include "lib/estimate.glsl"
#include "lib/lists.glsl"

const float SLACK = 1.0 / 524288;

// What no lane needs is left out. A software driver computes both sides of a branch, but of a loop only the turns that a lane takes.
#ifdef WEFT_TEXEL
#define WHERE(needed) for (bool turn = subgroupAny(needed); turn; turn = false)
#else
#define WHERE(needed) if (needed)
#endif

// The lane's rows. What is not wanted reads any row.
bool wanted[ROW_TILES];
uint positions[ROW_TILES];
Row rows[ROW_TILES];
float leading[ROW_TILES], needed[ROW_TILES], slack[ROW_TILES];

// The workgroup's: how many rows each plane was read of, and the positions of those that two bits leave.
shared uint read_rows[ESTIMATES];
shared uint left_count, left[WORKGROUP_ROWS];

uint wanted_rows() {
  uint count = 0;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) count += wanted[i] ? 1 : 0;
  return count;
}

uint id_of(uint position) { return LISTED != 0 ? allowed_rows[position] : position; }

// What is known of the rows before planes of them are read.
void know_rows(Known known, uint rest) {
  const uint tile_words = table_tile_words(FORMAT, rest);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint row = min(id_of(positions[i]) - p.row_base, p.slice_rows - 1);
    rows[i] = row_at(TableRow(row / TILE_ROWS * tile_words, row % TILE_ROWS));
  }
  leading_products(leading, rows, known);
  // The signs come out of the estimate again; SLACK is more than that loses.
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    slack[i] = (abs(uintBitsToFloat(lists[LIST_ESTIMATES(p.rows) + positions[i]])) + abs(leading[i])) * SLACK;
    needed[i] = uintBitsToFloat(lists[LIST_NEEDED(p.rows) + positions[i]]) - leading_error(rows[i], known) - slack[i];
  }
}

// Keeps what still reaches what it must by its signs and by two bits, of which the estimate has those up to the mode.
void refine_by_counts(Known known, uint mode, uint rest) {
  float signs[ROW_TILES];  // the products of the rest with its signs
  int ones[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) ones[i] = 0;
  WHERE(mode < HEAD_SIGNS && wanted_rows() > 0) {
    atomicAdd(read_rows[0], wanted_rows());
    count_plane(ones, rows, TABLE_PLANE_0, rest);
  }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const float estimate = uintBitsToFloat(lists[LIST_ESTIMATES(p.rows) + positions[i]]);
    signs[i] = mode < HEAD_SIGNS ? known.bit_scale * (known.bit_sum - 2 * float(ones[i])) : rows[i].factor > 0 ? (estimate - leading[i]) / rows[i].factor : 0;
    const Estimate e = with_signs(rows[i], leading[i], signs[i], known);
    wanted[i] = wanted[i] && (mode >= HEAD_SIGNS || e.value + e.error >= needed[i]);
  }
  WHERE(wanted_rows() > 0) {
    atomicAdd(read_rows[1], wanted_rows());
    count_plane(ones, rows, TABLE_PLANE_1(rest), rest);
  }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const Estimate e = with_two_bits(rows[i], leading[i], signs[i], float(ones[i]), known);
    // Slack for the signs, times what two bits make of it.
    const float more = rows[i].factor > 0 ? 2 * scale_of(rows[i].more.x) / rows[i].factor * slack[i] : 0;
    wanted[i] = wanted[i] && e.value + e.error + more >= needed[i];
  }
}

// Moves the rows that are wanted to the first lanes: so few of many lanes would keep all of them busy.
void gather_rows() {
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
    if (wanted[i]) left[atomicAdd(left_count, 1)] = positions[i];
  barrier();
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    wanted[i] = lane_row(i) < left_count;
    positions[i] = wanted[i] ? left[lane_row(i)] : 0;
  }
}

void refine_by_four_bits(Known known, uint rest) {
  float products[ROW_TILES];
  WHERE(wanted_rows() > 0) {
    atomicAdd(read_rows[2], wanted_rows());
    know_rows(known, rest);
    four_bit_products(products, rows, rest);
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      const Estimate e = with_four_bits(rows[i], leading[i], products[i], known);
      wanted[i] = wanted[i] && e.value + e.error >= needed[i];
    }
  }
}

// Grid: WORKGROUP_ROWS places of the list a workgroup.
void main() {
  const uint rest = (p.cols + BLOCK - 1) / BLOCK - 1, mode = state.head.mode;
  const Known known = known_of(rest);
  if (gl_LocalInvocationIndex < ESTIMATES) read_rows[gl_LocalInvocationIndex] = 0;
  if (gl_LocalInvocationIndex == 0) left_count = 0;
  barrier();
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint place = gl_WorkGroupID.x * WORKGROUP_ROWS + lane_row(i), count = state.head.refine_count;
    positions[i] = lists[LIST_REFINE(p.rows) + min(place, count - 1)];
    wanted[i] = place < count && id_of(positions[i]) - p.row_base < p.slice_rows;  // other slices have their own dispatches
  }
  WHERE(mode < HEAD_TWO_BITS && wanted_rows() > 0) {
    know_rows(known, rest);
    refine_by_counts(known, mode, rest);
  }
  if (ESTIMATE_STAGES(FORMAT) > 2) {
    gather_rows();
    refine_by_four_bits(known, rest);
  }
  uint place;
  APPEND(wanted_rows(), state.head.exact_count, place)
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i)
    if (wanted[i]) lists[LIST_IDS(p.rows) + place++] = id_of(positions[i]);
  GROUPS_FOR(state.head.exact.x, WORKGROUP_ROWS)
  if (gl_LocalInvocationIndex < ESTIMATES && read_rows[gl_LocalInvocationIndex] > 0)
    atomicAdd(state.head.refine_counts[gl_LocalInvocationIndex], read_rows[gl_LocalInvocationIndex]);
}
