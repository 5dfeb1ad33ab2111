// Reads of listed rows the planes that their estimates have not, one by one, as long as a row's bound reaches what it must. Lists for computing what
// still does.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/product.glsl"
#include "lib/planes.glsl"

layout(std430, binding = 2) buffer State { StepState state; };
layout(std430, binding = 3) readonly buffer AllowedRows { uint allowed_rows[]; };
layout(std430, binding = 4) buffer Lists { uint lists[]; };
layout(constant_id = 4) const uint LISTED = 0;
layout(push_constant) uniform Push { RefinePush p; };
#include "lib/estimate.glsl"
#include "lib/lists.glsl"

const float SLACK = 1.0 / 524288;

// The sum of the 8-bit values over the columns whose bit of a plane is set.
float ones(TableRow r, uint plane, uint rest) {
  const uint quads = TABLE_QUADS(rest);
  int sum = 0;
  for (uint quad = 0; quad < quads; ++quad) {
    const uvec4 bits = part_word(r, plane, quad, quads);
    for (uint k = 0; k < 8; ++k) {
      const ivec4 counts = bitCount(bits & input_at(FACTOR_BITS(rest) + quad * 8 + k));
      sum += (k == 7 ? -128 : 1 << k) * (counts.x + counts.y + counts.z + counts.w);
    }
  }
  return float(sum);
}

float leading_product(Row row, Known k) {
  float product = k.leading_sum * (127.5 / 256);
  for (uint j = 0; j < 8; ++j) product += dot(signed_bytes(part_word(row.at, TABLE_LEADING, j / 4, 2)[j % 4]), floats_at(j));
  return row.product + row.scale * product;
}

float four_bit_product(TableRow r, uint rest) {
  const uint quads = TABLE_QUADS(rest), pairs = TABLE_PAIRS(rest);
  float sum = 0;
  for (uint block = 0; block < rest; ++block) {
    const uint first = part_word(r, TABLE_PLANE_0, block / 4, quads)[block % 4], second = part_word(r, TABLE_PLANE_1(rest), block / 4, quads)[block % 4];
    const uvec4 two = part_word(r, TABLE_PLANE_2(rest), block / 2, pairs);
    const uint scales = scales_word(r, block / 2, FORMAT, rest);
    float product = 0;
    const uvec4 fours = fours_of(first, second, block % 2 == 0 ? two.xy : two.zw);
    [[unroll]] for (uint j = 0; j < 8; ++j) product += dot(four_bits(fours, j), floats_at((block + 1) * 8 + j));
    sum += scale_of(block % 2 == 0 ? scales : scales >> 16) * product;
  }
  return sum;
}

// Which planes a row's bound was tightened by.
struct Refined {
  bool signs, two_bits, four_bits;
  bool alive;
};
Refined refine(uint place, uint position, TableRow at, uint rest) {
  Refined result = Refined(false, false, false, true);
  const Known known = known_of(rest);
  const Row row = row_at(at);
  const uint mode = state.head.mode;
  const float estimate = uintBitsToFloat(lists[LIST_ESTIMATES(p.rows) + position]), error = leading_error(row, known);
  const float leading = mode < HEAD_SIGNS ? estimate : leading_product(row, known);
  // The signs come out of the estimate again; SLACK is more than that loses.
  const float slack = (abs(estimate) + abs(leading)) * SLACK;
  const float needed = uintBitsToFloat(lists[LIST_NEEDED(p.rows) + place]) - error - slack;
  float signs = 0;  // the product of the rest with its signs
  if (mode < HEAD_SIGNS) {
    result.signs = true;
    signs = known.bit_scale * (known.bit_sum - 2 * ones(at, TABLE_PLANE_0, rest));
    const Estimate e = with_signs(row, leading, signs, known);
    result.alive = e.value + e.error >= needed;
  } else if (mode == HEAD_SIGNS && row.factor > 0) {
    signs = (estimate - leading) / row.factor;
  }
  if (result.alive && mode < HEAD_TWO_BITS) {
    result.two_bits = true;
    const Estimate e = with_two_bits(row, leading, signs, ones(at, TABLE_PLANE_1(rest), rest), known);
    // Slack for the signs, times what two bits make of it.
    const float more = row.factor > 0 ? 2 * scale_of(row.more.x) / row.factor * slack : 0;
    result.alive = e.value + e.error + more >= needed;
  }
  if (result.alive && ESTIMATE_STAGES(FORMAT) > 2) {
    result.four_bits = true;
    const Estimate e = with_four_bits(row, leading, four_bit_product(at, rest), known);
    result.alive = e.value + e.error >= needed;
  }
  return result;
}

// Grid: rows_per_group places of the list a workgroup. A row of another slice is that slice's dispatch's.
void main() {
  const uint rest = (p.cols + BLOCK - 1) / BLOCK - 1, tile_words = table_tile_words(FORMAT, rest);
  for (uint strip = 0; strip < p.rows_per_group; strip += TILE_ROWS) {
    const uint place = gl_WorkGroupID.x * p.rows_per_group + strip + gl_LocalInvocationID.x;
    Refined refined = Refined(false, false, false, false);
    uint id = 0;
    if (place < state.head.refine_count) {
      const uint position = lists[LIST_REFINE(p.rows) + place];
      id = LISTED != 0 ? allowed_rows[position] : position;
      const uint row = id - p.row_base;
      if (row < p.slice_rows) refined = refine(place, position, TableRow(row / TILE_ROWS * tile_words, row % TILE_ROWS), rest);
    }
    uint unused, place_of_row;
    APPEND(refined.signs ? 1u : 0u, state.head.refine_counts[0], unused)
    APPEND(refined.two_bits ? 1u : 0u, state.head.refine_counts[1], unused)
    APPEND(refined.four_bits ? 1u : 0u, state.head.refine_counts[2], unused)
    APPEND(refined.alive ? 1u : 0u, state.head.exact_count, place_of_row)
    if (refined.alive) lists[LIST_IDS(p.rows) + place_of_row] = id;
    GROUPS_FOR(state.head.exact.x, p.rows_per_group)
  }
}
