// Upper bounds of the logits of every row that may be chosen, from what MODE reads of them. Signs are counted: the hidden state has 7 bits
// and a sign, and a plane of a row with a bit of it makes one population count for 32 columns.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/product.glsl"
#include "lib/planes.glsl"

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) readonly buffer AllowedRows { uint allowed_rows[]; };
layout(std430, binding = 4) writeonly buffer Lists { uint lists[]; };
layout(constant_id = 4) const uint MODE = HEAD_LEADING;
layout(constant_id = 5) const uint LISTED = 0;
layout(push_constant) uniform Push { EstimatePush p; };
#include "lib/estimate.glsl"

// Grid: x ROW_TILES tiles of positions: of the slice's rows, or of the list.
void main() {
  const uint rest = (p.cols + BLOCK - 1) / BLOCK - 1, tile_words = table_tile_words(FORMAT, rest);
  uint ids[ROW_TILES];
  TableRow table_rows[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint local = gl_WorkGroupID.x * ROW_TILES * TILE_ROWS + lane_row(i);
    ids[i] = LISTED != 0 ? allowed_rows[min(local, state.head.positions - 1)] : p.row_base + min(local, p.slice_rows - 1);
    const uint row = min(ids[i] - p.row_base, p.slice_rows - 1);  // what is not in this slice reads any row of it
    table_rows[i] = TableRow(row / TILE_ROWS * tile_words, row % TILE_ROWS);
  }
  float leading[ROW_TILES], four[ROW_TILES];
  int first[ROW_TILES], second[ROW_TILES];
  if (MODE == HEAD_SIGNS || MODE == HEAD_TWO_BITS) count_plane(first, table_rows, TABLE_PLANE_0, rest);
  if (MODE == HEAD_TWO_BITS) count_plane(second, table_rows, TABLE_PLANE_1(rest), rest);
  if (MODE == HEAD_FOUR_BITS) four_bit_products(four, table_rows, rest);
  // Read after the loops, which do not need these values: registers are few.
  Row rows[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) rows[i] = row_at(table_rows[i]);
  const Known known = known_of(rest);
  leading_products(leading, rows, known);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint local = gl_WorkGroupID.x * ROW_TILES * TILE_ROWS + lane_row(i);
    const uint position = LISTED != 0 ? local : p.row_base + local;
    if (local >= (LISTED != 0 ? state.head.positions : p.slice_rows) || ids[i] - p.row_base >= p.slice_rows) continue;
    Estimate e = Estimate(leading[i], 0);
    if (MODE == HEAD_LEADING) e.error = leading_only_error(rows[i], known);
    const float signs = known.bit_scale * (known.bit_sum - 2 * float(first[i]));
    if (MODE == HEAD_SIGNS) e = with_signs(rows[i], leading[i], signs, known);
    if (MODE == HEAD_TWO_BITS) e = with_two_bits(rows[i], leading[i], signs, float(second[i]), known);
    if (MODE == HEAD_FOUR_BITS) e = with_four_bits(rows[i], leading[i], four[i], known);
    const bool allowed = p.masked == 0 || (allowed_rows[p.rows + ids[i] / 32] >> (ids[i] % 32) & 1) != 0;
    lists[LIST_ESTIMATES(p.rows) + position] = floatBitsToUint(allowed ? e.value : -3.4e38);
    lists[LIST_BOUNDS(p.rows) + position] = floatBitsToUint(allowed ? e.value + e.error + leading_error(rows[i], known) : -3.4e38);
  }
}
