// Upper bounds of the logits of every row that may be chosen, from what MODE reads of the table's first two planes (q4: of plane 0 only).
// Integer arithmetic for q8 and q4: two elements a 32-bit multiplication, by the factors that quantise leaves; f16 reads the high bytes as
// numbers of 2 mantissa bits.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#include "lib/product.glsl"
#include "lib/planes.glsl"

layout(std430, binding = 2) readonly buffer State { StepState state; };
layout(std430, binding = 3) readonly buffer Choice { uint choice[]; };
layout(std430, binding = 4) writeonly buffer Lists { uint lists[]; };
layout(constant_id = 4) const uint MODE = HEAD_SWEEP;
layout(constant_id = 5) const uint LISTED = 0;
layout(push_constant) uniform Push { EstimatePush p; };

// What a block's estimates take from the hidden state.
struct Factors {
  uvec4 words[4], rest;
};
Factors factors_of(uint block) {
  const EightInputs x = eight_inputs(block * (ESTIMATE_WORDS / 4));
  Factors f;
  [[unroll]] for (uint j = 0; j < 4; ++j) f.words[j] = input_of(x, j);
  f.rest = input_of(x, 4);
  return f;
}

// Products over a word's 16 elements of fields times x8: at most 15 * 127 * 16 in each half.
int plane_products(bool both, uint first, uint second, uvec4 f0, uvec4 f1) {
  int sum = 0;
  // Not one loop with a choice in it: SwiftShader's compiler runs out of memory over that.
#define FIELDS(s, f) sum += int((first >> (2 * s)) & 0x00030003u) * int(f);
#define BOTH_FIELDS(word, s, f) sum += int((word >> (2 * s)) & 0x000f000fu) * int(f);
  if (both) {
    // Fields of 4 bits: those of even numbers, and those of odd.
    const uint even = (first & 0x33333333u) << 2 | (second & 0x33333333u), odd = (first & 0xccccccccu) | (second >> 2 & 0x33333333u);
    BOTH_FIELDS(even, 0, f0.x) BOTH_FIELDS(odd, 0, f0.y) BOTH_FIELDS(even, 2, f0.z) BOTH_FIELDS(odd, 2, f0.w)
    BOTH_FIELDS(even, 4, f1.x) BOTH_FIELDS(odd, 4, f1.y) BOTH_FIELDS(even, 6, f1.z) BOTH_FIELDS(odd, 6, f1.w)
  } else {
    FIELDS(0, f0.x) FIELDS(1, f0.y) FIELDS(2, f0.z) FIELDS(3, f0.w) FIELDS(4, f1.x) FIELDS(5, f1.y) FIELDS(6, f1.z) FIELDS(7, f1.w)
  }
  return sum;
}

// Of a lane's rows: estimates, and bounds on how far off they are.
struct Rows {
  float sums[ROW_TILES], errors[ROW_TILES];
};

// A block of row i, whose planes' words are given: plane 1's only if `both`, a constant where this is called.
void add_block(inout Rows r, uint i, bool both, uvec2 first, uvec2 second, float scale, Factors x) {
  const int low = plane_products(both, first.x, second.x, x.words[0], x.words[1]);
  const int high = plane_products(both, first.y, second.y, x.words[2], x.words[3]);
  const int dot = both ? upper_half(low) + upper_half(high) : upper_half(low + high);  // where both fit into a half
  // u's known bits stand for the middle of what is open: 64 a - 96.5 or 16 (4 a + b) - 120.5. Twice that is a whole number, and
  // below 2^24 in sum.
  const int twice = both ? 32 * dot - 241 * int(x.rest.y) : 128 * dot - 193 * int(x.rest.y);
  r.sums[i] += scale * uintBitsToFloat(x.rest.x) * (0.5 * float(twice));
  r.errors[i] += abs(scale) * uintBitsToFloat(x.rest.z);
}

// Two blocks of each row.
void add_pair(inout Rows r, bool both, uint tiles[ROW_TILES], uint rows[ROW_TILES], uint pair, uint blocks) {
  const Factors x = factors_of(pair * 2), next = factors_of(pair * 2 + 1);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint at = tiles[i] / 4 + IN_TILE(rows[i], pair, blocks / 2);
    const uvec4 first = word_at(at);
    uvec4 second = uvec4(0);
    if (both) second = word_at(at + blocks * (TILE_ROWS / 2));
    const uint scales = q8_small_word(tiles[i], rows[i], pair, blocks);
    add_block(r, i, both, first.xy, second.xy, scale_of(scales), x);
    add_block(r, i, both, first.zw, second.zw, scale_of(scales >> 16), next);
  }
}

void estimate_q8(inout Rows r, uint tiles[ROW_TILES], uint rows[ROW_TILES], uint blocks) {
  const uint pairs = blocks / 2, first_half = HALF_BLOCKS(blocks) / 2;
  if (MODE == HEAD_HALF) for (uint pair = 0; pair < first_half; ++pair) add_pair(r, true, tiles, rows, pair, blocks);
  for (uint pair = MODE == HEAD_HALF ? first_half : 0; pair < pairs; ++pair) add_pair(r, MODE == HEAD_BOTH, tiles, rows, pair, blocks);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    if (blocks % 2 == 1) {
      uvec2 second = uvec2(0);
      if (MODE == HEAD_BOTH) second = two_bit_word(tiles[i], rows[i], 1, blocks - 1, blocks);
      add_block(r, i, MODE == HEAD_BOTH, two_bit_word(tiles[i], rows[i], 0, blocks - 1, blocks), second,
                scale_of(q8_small_word(tiles[i], rows[i], blocks / 2, blocks)), factors_of(blocks - 1));
    }
    const Q8Norms norms = q8_norms(tiles[i], rows[i], blocks);
    vec2 error = norms.open;
    if (MODE != HEAD_SWEEP) error.x *= norms.left.x;
    if (MODE == HEAD_BOTH) error.y *= norms.left.y;
    r.errors[i] += error.x * state.head.hidden_norms[0] + error.y * state.head.hidden_norms[1];
  }
}

// A block of a q4 row, whose word of plane 0 and whose scale and minimum are given.
void add_q4_block(inout Rows r, uint i, uvec2 first, uint line, Factors x) {
  const int dot = upper_half(plane_products(false, first.x, 0, x.words[0], x.words[1]) +
                             plane_products(false, first.y, 0, x.words[2], x.words[3]));
  const float scale = scale_of(line), minimum = scale_of(line >> 16);
  // 4 a + 1.5 stands for q; twice that is a whole number.
  const float products = 0.5 * float(8 * dot + 3 * int(x.rest.y)), sum = float(int(x.rest.y));
  r.sums[i] += uintBitsToFloat(x.rest.x) * (scale * products + minimum * sum);
  r.errors[i] += max(abs(minimum), abs(minimum + 15 * scale)) * uintBitsToFloat(x.rest.z);
}

void estimate_q4(inout Rows r, uint tiles[ROW_TILES], uint rows[ROW_TILES], uint blocks) {
  const uint pairs = blocks / 2;
  for (uint pair = 0; pair < pairs; ++pair) {
    const Factors x = factors_of(pair * 2), next = factors_of(pair * 2 + 1);
    [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
      const uvec4 first = word_at(tiles[i] / 4 + IN_TILE(rows[i], pair, pairs));
      add_q4_block(r, i, first.xy, q4_small_word(tiles[i], rows[i], pair * 2, blocks), x);
      add_q4_block(r, i, first.zw, q4_small_word(tiles[i], rows[i], pair * 2 + 1, blocks), next);
    }
  }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    if (blocks % 2 == 1)
      add_q4_block(r, i, two_bit_word(tiles[i], rows[i], 0, blocks - 1, blocks), q4_small_word(tiles[i], rows[i], blocks - 1, blocks),
                   factors_of(blocks - 1));
    const uint norms = q4_small_word(tiles[i], rows[i], blocks, blocks);
    r.errors[i] += min(scale_of(norms), 3e38) * state.head.hidden_norms[0] + min(scale_of(norms >> 16), 3e38) * state.head.hidden_norms[1];
  }
}

void estimate_f16(inout Rows r, uint tiles[ROW_TILES], uint rows[ROW_TILES], uint blocks) {
  for (uint block = 0; block < blocks; ++block) {
    const EightInputs x = eight_inputs(1 + block * 8);
    [[unroll]] for (uint k = 0; k < 2; ++k)
      [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
        const uvec4 high = word_at(tiles[i] / 4 + IN_TILE(rows[i], block * 2 + k, blocks * 2));
        [[unroll]] for (uint j = 0; j < 4; ++j) r.sums[i] += dot(f16_quad(high[j], 0x80808080u), floats_of(x, k * 4 + j));
      }
  }
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint word = small_word_at(tiles[i] + blocks * 16 * TILE_ROWS + IN_TILE(rows[i], 0, F16_HALF_WORDS));
    const float residual = min(scale_of(word), 3e38), norm = min(scale_of(word >> 16), 3e38);
    // The longest chain of roundings is that of the estimate, a product an element: 32 blocks of them.
    r.errors[i] = state.head.hidden_norms[1] * (residual + (norm + residual) * (16 * floats_at(0).x));
  }
}

// Grid: x ROW_TILES tiles of positions: of the slice's rows, or of the list.
void main() {
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, tile_words = table_tile_words(FORMAT, blocks);
  uint tiles[ROW_TILES], rows[ROW_TILES], ids[ROW_TILES];
  Rows r;
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint local = gl_WorkGroupID.x * ROW_TILES * TILE_ROWS + lane_row(i);
    ids[i] = LISTED != 0 ? choice[min(local, state.head.positions - 1)] : p.row_base + min(local, p.slice_rows - 1);
    const uint row = min(ids[i] - p.row_base, p.slice_rows - 1);  // what is not in this slice reads any row of it
    tiles[i] = row / TILE_ROWS * tile_words;
    rows[i] = row % TILE_ROWS;
    r.sums[i] = r.errors[i] = 0;
  }
  if (FORMAT == FORMAT_Q8)
    estimate_q8(r, tiles, rows, blocks);
  else if (FORMAT == FORMAT_Q4)
    estimate_q4(r, tiles, rows, blocks);
  else
    estimate_f16(r, tiles, rows, blocks);
  [[unroll]] for (uint i = 0; i < ROW_TILES; ++i) {
    const uint local = gl_WorkGroupID.x * ROW_TILES * TILE_ROWS + lane_row(i);
    const uint position = LISTED != 0 ? local : p.row_base + local;
    if (local >= (LISTED != 0 ? state.head.positions : p.slice_rows) || ids[i] - p.row_base >= p.slice_rows) continue;
    const bool allowed = p.masked == 0 || (choice[p.rows + ids[i] / 32] >> (ids[i] % 32) & 1) != 0;
    lists[LIST_BOUNDS(p.rows) + position] = floatBitsToUint(allowed ? r.sums[i] + r.errors[i] : -3.4e38);
    lists[LIST_ESTIMATES(p.rows) + position] = floatBitsToUint(allowed ? r.sums[i] : -3.4e38);
  }
}
