// Embedding gather: rows of the vocabulary table for the tokens of a pass, as floats; of a table in a basis of its own, in that basis.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/bytes.glsl"
#include "lib/half.glsl"

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint LAYOUT = TABLE_VALUES;
layout(constant_id = 2) const uint ADD = 0;  // 1: x += the row
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer Words { uvec4 words[]; };  // the slice's tiles
layout(std430, binding = 0) readonly buffer WordsAsSmallWords { uint small_words[]; };
layout(std430, binding = 1) readonly buffer State { StepState state; };
layout(std430, binding = 2) readonly buffer History { uint history[]; };
layout(std430, binding = 3) buffer Output { float x[]; };  // (pass tokens, stride)
layout(push_constant) uniform Push { GatherPush p; };

uvec4 word_at(uint i) { return words[i]; }
uint small_word_at(uint i) { return small_words[i]; }
#include "lib/planes.glsl"
#include "lib/formats.glsl"
#include "lib/tiles.glsl"
#include "lib/super_blocks.glsl"

// Elements 4j .. 4j + 3 of a block of whole values.
vec4 quad_of_values(uint tile, uint row, uint block, uint j, uint blocks) {
  const uint words_of_row = BLOCK_WORDS * blocks, base = tile * tile_words(blocks);
  const uint at = base / 4 + IN_TILE(row, 0, words_of_row), scales = base + TILE_ROWS * 4 * words_of_row;
  if (FORMAT == FORMAT_F16) {
    const uvec4 word = word_at(at + (block * 4 + j / 2) * GROUP_ROWS);
    return vec4(unpackHalf2x16(word[j % 2 * 2]), unpackHalf2x16(word[j % 2 * 2 + 1]));
  }
  if (FORMAT == FORMAT_Q8) {
    const uint pair = small_word_at(scales + IN_TILE(row, block / 2, (blocks + 1) / 2));
    return scale_of(block % 2 == 0 ? pair : pair >> 16) * signed_bytes(word_at(at + (block * 2 + j / 4) * GROUP_ROWS)[j % 4]);
  }
  const uint pair = small_word_at(scales + IN_TILE(row, block, blocks));
  const uint nibbles = word_at(at + block * GROUP_ROWS)[j / 2] >> (16 * (j % 2));
  return scale_of(pair) * vec4((uvec4(nibbles) >> uvec4(0, 4, 8, 12)) & 15u) + scale_of(pair >> 16);
}

// The same of a native format, with the bits that the file's type gives.
vec4 native_quad(uint tile, uint row, uint block, uint j, uint blocks) {
  const uint base = tile * tile_words(blocks), at = base / 4 + IN_TILE(row, 0, row_words(blocks)), eight = j / 2;
  uint upper = 0, notes = 0;
  if (SUPER && UPPER > 0) upper = small_word_at(upper_word(at, block, eight));
  if (FIFTH) upper = small_word_at(base + words_before_fifth(blocks) + IN_TILE(row, block, blocks));
  if (NOTED) notes = small_word_at(base + words_before_notes(blocks) + IN_TILE(row, block / RUN, (blocks + RUN - 1) / RUN));
  vec4 low, high;
  integers_of(low, high, lower_of(word_at(at + block_word(block) * GROUP_ROWS), block, eight), upper, eight);
  const vec4 integers = j % 2 == 0 ? low : high;
  uvec4 scale_words = uvec4(notes);
  if (SUPER) {
    scale_words = word_at(scales_at(at, block));
    if (NOTED) scale_words = uvec4(scale_words[block % SUPER_BLOCKS / 2], notes, 0, 0);
    if (THREE && block % SUPER_BLOCKS / 4 == 1) scale_words = scale_words.zwzw;
  }
  if (MINIMA) {
    const vec2 line = line_of(scale_words, block, j / 4);
    precise const vec4 values = line.x * integers + line.y;
    return values;
  }
  return (SUPER ? halves_of_super(scale_words, block)[j / 4] : scale_of_pair(notes, block)) * integers;
}

// The same of a block of planes; block 0 has the leading columns.
vec4 quad_of_planes(uint tile, uint row, uint block, uint j, uint blocks) {
  const uint rest = blocks - 1, b = block - 1;
  const TableRow r = TableRow(tile * table_tile_words(FORMAT, rest), row);
  if (block == 0)
    return scale_of(row_header(r).x) *
           (signed_bytes(part_word(r, TABLE_LEADING, j / 4, 2)[j % 4]) + unsigned_bytes(part_word(r, TABLE_LOW(FORMAT, rest), j / 4, 2)[j % 4]) * (1.0 / 256));
  const uint first = part_word(r, TABLE_PLANE_0, b / 4, TABLE_QUADS(rest))[b % 4];
  const uint second = part_word(r, TABLE_PLANE_1(rest), b / 4, TABLE_QUADS(rest))[b % 4];
  const uint two = part_word(r, TABLE_PLANE_2(rest), b / 2, TABLE_PAIRS(rest))[b % 2 * 2 + j % 2];
  const uint scales = scales_word(r, b / 2, FORMAT, rest);
  vec4 quad;
  if (FORMAT == FORMAT_Q4)
    quad = signed_bytes(quad_of_four(first, second, two, j)) * (1.0 / 16);
  else
    quad = signed_bytes(quad_of_eight(first, second, two, part_word(r, TABLE_PLANE_3(rest), b, rest)[j % 4], j));
  if (FORMAT == FORMAT_F16) quad += unsigned_bytes(part_word(r, TABLE_PLANE_4(rest), b * 2 + j / 4, rest * 2)[j % 4]) * (1.0 / 256);
  return scale_of(b % 2 == 0 ? scales : scales >> 16) * quad;
}

// Grid: one lane four elements of the row; one y a token of the pass.
void main() {
  const uint token = gl_WorkGroupID.y;
  if (state.pos + token >= state.end) return;
  const uint id = history[state.pos + token];
  if (id < p.row_base || id - p.row_base >= p.rows) return;  // another slice has this row, or insert_rows writes it
  const uint blocks = (p.cols + BLOCK - 1) / BLOCK, row = id % TILE_ROWS, tile = (id - p.row_base) / TILE_ROWS;
  const uint quad_index = gl_GlobalInvocationID.x, block = quad_index / 8;
  if (block >= blocks) return;
  vec4 quad;
  if (LAYOUT != TABLE_VALUES)
    quad = quad_of_planes(tile, row, block, quad_index % 8, blocks);
  else if (PACKED)
    quad = native_quad(tile, row, block, quad_index % 8, blocks);
  else
    quad = quad_of_values(tile, row, block, quad_index % 8, blocks);
  const uint cols = LAYOUT == TABLE_VALUES ? p.cols : blocks * BLOCK;
  for (uint e = 0; e < 4; ++e) {
    if (quad_index * 4 + e >= cols) continue;
    const uint at = token * p.stride + quad_index * 4 + e;
    x[at] = (ADD != 0 ? x[at] : 0) + quad[e] * p.scale;
  }
}
