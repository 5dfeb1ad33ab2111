// Upper bounds of the logits of every row that may be chosen, from what MODE reads of them. Signs are counted: the hidden state has 8 bits, and a
// plane of a row with a bit of it makes one population count for 32 columns.
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

// The product of the leading columns' upper bytes, and of their lower bytes' middle.
void add_leading(inout float sums[ROW_TILES], Row rows[ROW_TILES], Known k, uint rest) {
  const EightInputs x = eight_inputs(0);
  const float middle = k.leading_sum * (127.5 / 256);
  float products[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) products[i] = middle;
  [[unroll]] for (uint half_ = 0; half_ < 2; ++half_)
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      const uvec4 high = part_word(rows[i].at, TABLE_LEADING, half_, 2);
      [[unroll]] for (uint j = 0; j < 4; ++j) products[i] += dot(signed_bytes(high[j]), floats_of(x, half_ * 4 + j));
    }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[i] = rows[i].product + rows[i].scale * products[i];
}

int ones(uvec4 bits) {
  const ivec4 counts = bitCount(bits);
  return counts.x + counts.y + counts.z + counts.w;
}

// Sums of 8-bit values over the columns whose bit is set, of plane 0 and, if BOTH, of plane 1.
void count_planes(out ivec2 sums[ROW_TILES], Row rows[ROW_TILES], bool both, uint rest) {
  const uint quads = TABLE_QUADS(rest);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[i] = ivec2(0);
  for (uint quad = 0; quad < quads; ++quad) {
    const EightInputs x = eight_inputs(FACTOR_BITS(rest) + quad * 8);
    uvec4 first[ROW_TILES], second[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) first[i] = part_word(rows[i].at, TABLE_PLANE_0, quad, quads);
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) second[i] = both ? part_word(rows[i].at, TABLE_PLANE_1(rest), quad, quads) : uvec4(0);
    [[unroll]] for (uint k = 0; k < 8; ++k) {
      const uvec4 bits = input_of(x, k);
      const int weight = k == 7 ? -128 : 1 << k;
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
        sums[i].x += weight * ones(first[i] & bits);
        if (both) sums[i].y += weight * ones(second[i] & bits);
      }
    }
  }
}

// The product of the rest's first four bits.
void add_four_bits(out float sums[ROW_TILES], Row rows[ROW_TILES], uint rest) {
  const uint quads = TABLE_QUADS(rest), pairs = TABLE_PAIRS(rest);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) sums[i] = 0;
  for (uint pair = 0; pair < pairs; ++pair) {
    uvec4 two[ROW_TILES];
    uvec2 first[ROW_TILES], second[ROW_TILES];
    uint scales[ROW_TILES];
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      two[i] = part_word(rows[i].at, TABLE_PLANE_2(rest), pair, pairs);
      const uvec4 a = part_word(rows[i].at, TABLE_PLANE_0, pair / 2, quads), b = part_word(rows[i].at, TABLE_PLANE_1(rest), pair / 2, quads);
      first[i] = pair % 2 == 0 ? a.xy : a.zw;
      second[i] = pair % 2 == 0 ? b.xy : b.zw;
      scales[i] = scales_word(rows[i].at, pair, FORMAT, rest);
    }
    [[unroll]] for (uint b = 0; b < 2; ++b) {
      const uint block = pair * 2 + b;
      if (block < rest) {
        const EightInputs x = eight_inputs((block + 1) * 8);
        [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
          float product = 0;
          const uvec4 fours = fours_of(first[i][b], second[i][b], b == 0 ? two[i].xy : two[i].zw);
          [[unroll]] for (uint j = 0; j < 8; ++j) product += dot(four_bits(fours, j), floats_of(x, j));
          sums[i] += scale_of(b == 0 ? scales[i] : scales[i] >> 16) * product;
        }
      }
    }
  }
}

// Grid: x ROW_TILES tiles of positions: of the slice's rows, or of the list.
void main() {
  const uint rest = (p.cols + BLOCK - 1) / BLOCK - 1, tile_words = table_tile_words(FORMAT, rest);
  uint ids[ROW_TILES];
  Row rows[ROW_TILES];
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint local = gl_WorkGroupID.x * ROW_TILES * TILE_ROWS + lane_row(i);
    ids[i] = LISTED != 0 ? allowed_rows[min(local, state.head.positions - 1)] : p.row_base + min(local, p.slice_rows - 1);
    const uint row = min(ids[i] - p.row_base, p.slice_rows - 1);  // what is not in this slice reads any row of it
    rows[i] = row_at(TableRow(row / TILE_ROWS * tile_words, row % TILE_ROWS));
  }
  float leading[ROW_TILES], four[ROW_TILES];
  ivec2 counts[ROW_TILES];
  const Known known = known_of(rest);
  add_leading(leading, rows, known, rest);
  if (MODE == HEAD_SIGNS || MODE == HEAD_TWO_BITS) count_planes(counts, rows, MODE == HEAD_TWO_BITS, rest);
  if (MODE == HEAD_FOUR_BITS) add_four_bits(four, rows, rest);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint local = gl_WorkGroupID.x * ROW_TILES * TILE_ROWS + lane_row(i);
    const uint position = LISTED != 0 ? local : p.row_base + local;
    if (local >= (LISTED != 0 ? state.head.positions : p.slice_rows) || ids[i] - p.row_base >= p.slice_rows) continue;
    Estimate e = Estimate(leading[i], 0);
    if (MODE == HEAD_LEADING) e.error = leading_only_error(rows[i], known);
    const float signs = known.bit_scale * (known.bit_sum - 2 * float(counts[i].x));
    if (MODE == HEAD_SIGNS) e = with_signs(rows[i], leading[i], signs, known);
    if (MODE == HEAD_TWO_BITS) e = with_two_bits(rows[i], leading[i], signs, float(counts[i].y), known);
    if (MODE == HEAD_FOUR_BITS) e = with_four_bits(rows[i], leading[i], four[i], known);
    const bool allowed = p.masked == 0 || (allowed_rows[p.rows + ids[i] / 32] >> (ids[i] % 32) & 1) != 0;
    lists[LIST_ESTIMATES(p.rows) + position] = floatBitsToUint(allowed ? e.value : -3.4e38);
    lists[LIST_BOUNDS(p.rows) + position] = floatBitsToUint(allowed ? e.value + e.error + leading_error(rows[i], known) : -3.4e38);
  }
}
