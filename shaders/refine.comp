// Tightens the bounds of listed rows by plane 1: of the first half of the columns, unless the estimates had that, and, if it does not rule
// a row out, of the others. Lists for computing what can still be chosen.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/product.glsl"
#include "lib/planes.glsl"

layout(std430, binding = 2) buffer State { StepState state; };
layout(std430, binding = 3) readonly buffer Choice { uint choice[]; };
layout(std430, binding = 4) buffer Lists { uint lists[]; };
layout(constant_id = 4) const uint LISTED = 0;
layout(push_constant) uniform Push { RefinePush p; };
#include "lib/lists.glsl"

// What plane 1 of a block adds to the estimate: plane 0 took the middle of 64 values, 16 b - 24 leads to the middle of 16.
float block_gain(uvec2 plane, float scale, uint block) {
  const uint at = block * (ESTIMATE_WORDS / 4);
  const uvec4 rest = input_at(at + 4);
  int products = 0;
#define FIELDS(s, f, g) products += int((plane.x >> (2 * s)) & 0x00030003u) * int(f) + int((plane.y >> (2 * s)) & 0x00030003u) * int(g);
  const uvec4 f0 = input_at(at), f1 = input_at(at + 1), g0 = input_at(at + 2), g1 = input_at(at + 3);
  FIELDS(0, f0.x, g0.x) FIELDS(1, f0.y, g0.y) FIELDS(2, f0.z, g0.z) FIELDS(3, f0.w, g0.w)
  FIELDS(4, f1.x, g1.x) FIELDS(5, f1.y, g1.y) FIELDS(6, f1.z, g1.z) FIELDS(7, f1.w, g1.w)
  return scale * uintBitsToFloat(rest.x) * float(16 * upper_half(products) - 24 * int(rest.y));
}

// Of blocks first .. last - 1; first is even.
float gain(uint tile, uint row, uint first, uint last, uint blocks) {
  float sum = 0;
  for (uint block = first; block + 1 < last; block += 2) {
    const uvec4 plane = word_at((tile + 2 * blocks * TILE_ROWS) / 4 + IN_TILE(row, block / 2, blocks / 2));
    const uint scales = q8_small_word(tile, row, block / 2, blocks);
    sum += block_gain(plane.xy, scale_of(scales), block) + block_gain(plane.zw, scale_of(scales >> 16), block + 1);
  }
  if (last % 2 == 1)
    sum += block_gain(two_bit_word(tile, row, 1, last - 1, blocks), scale_of(q8_small_word(tile, row, last / 2, blocks)), last - 1);
  return sum;
}

// Grid: rows_per_group places of the list a workgroup. A row of another slice is that slice's dispatch's.
void main() {
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, tile_words = table_tile_words(FORMAT_Q8, blocks), half_blocks = HALF_BLOCKS(blocks);
  for (uint strip = 0; strip < p.rows_per_group; strip += TILE_ROWS) {
    const uint place = gl_WorkGroupID.x * p.rows_per_group + strip + gl_LocalInvocationID.x;
    bool alive = place < state.head.refine_count, rest = false;
    uint id = 0;
    if (alive) {
      const uint position = lists[LIST_REFINE(p.rows) + place];
      id = LISTED != 0 ? choice[position] : position;
      alive = id - p.row_base < p.slice_rows;
      if (alive) {
        const uint row = (id - p.row_base) % TILE_ROWS, tile = (id - p.row_base) / TILE_ROWS * tile_words;
        const Q8Norms norms = q8_norms(tile, row, blocks);
        const float first = norms.open.x * (1 - norms.left.x) * state.head.hidden_norms[0];
        const float second = norms.open.y * (1 - norms.left.y) * state.head.hidden_norms[1];
        float bound = uintBitsToFloat(lists[LIST_BOUNDS(p.rows) + position]);
        if (state.head.mode == HEAD_SWEEP) {
          bound += gain(tile, row, 0, half_blocks, blocks) - first;
          alive = bound >= 0;
        }
        if (alive) {
          rest = true;
          bound += gain(tile, row, half_blocks, blocks, blocks) - second;
          alive = bound >= 0;
        }
      }
    }
    uint place_of_rest, place_of_row;
    APPEND(rest ? 1u : 0u, state.head.rest_count, place_of_rest)
    APPEND(alive ? 1u : 0u, state.head.exact_count, place_of_row)
    if (alive) lists[LIST_IDS(p.rows) + place_of_row] = id;
    GROUPS_FOR(state.head.exact.x, p.rows_per_group)
  }
}
