// Rotary position embedding (Su et al. 2021) of queries and keys, and the write of keys and values to the cache.
// Keys are kept like a tiled matrix of positions, so that attention reads them as rows_dot reads weights: per key/value
// head, tiles of TILE_ROWS positions, in f16 word k (8 dimensions) of position r at uvec4 IN_KEYS(r, k, words). Values are
// kept row by row. abi.h has the layouts. The cache is a ring: a position is kept at slot position % capacity.
//
// WEFT_TEXEL is for llvmpipe: eight dimensions a lane, which it reads as texels and writes as words of 16 bytes. For heads whose rotary halves
// are whole words; in q8 those of whole pairs of blocks too, of which a workgroup has one.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"
#include "lib/half.glsl"
#ifdef WEFT_TEXEL
#include "lib/lanes.glsl"
#endif

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;  // of the cache
layout(constant_id = 1) const uint MEMBER_TOKENS = 0;    // of each session of a batch
layout(constant_id = 2) const uint OF_TREE = 0;          // 1: the pass checks a tree
#define TREE (OF_TREE != 0)
#include "lib/members.glsl"
layout(push_constant) uniform Push { RopePush p; };
// qkv (pass tokens, in_stride): q heads, k heads, v heads; rope_table (positions, rotary_dim / 2): cosine, sine; q (pass tokens, out_stride).

#ifdef WEFT_TEXEL
layout(constant_id = 3) const uint DIM = 64;  // of a head
layout(constant_id = 4) const uint ADJACENT = 0;
layout(local_size_x = 8) in;

layout(binding = 1) uniform usamplerBuffer qkv;
layout(binding = 2) uniform usamplerBuffer rope_table;
layout(std430, binding = 3) writeonly buffer Queries { vec4 q[]; };
layout(std430, binding = 4) writeonly buffer Keys { uvec4 keys[]; };
layout(std430, binding = 4) writeonly buffer KeyScales { uint key_scales[]; };
layout(std430, binding = 5) writeonly buffer Values { uvec4 values[]; };
layout(std430, binding = 5) writeonly buffer ValueScales { uint value_scales[]; };

vec4 input_at(uint i) { return uintBitsToFloat(texelFetch(qkv, int(i))); }
vec4 rope_table_at(uint i) { return uintBitsToFloat(texelFetch(rope_table, int(i))); }

#define ROTARY_DIM p.rotary_dim
#include "lib/rotate.glsl"

uint bytes_of(vec4 steps) {
  const uvec4 bytes = uvec4(ivec4(clamp(round(steps), -127, 127))) & 0xff;
  return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

// Eight lanes' dimensions, word `word` of each's head, as two blocks of FORMAT_Q8.
void write_blocks(bool key, uint head, uint word, uint slot, vec4 low, vec4 high) {
  const vec4 larger = max(abs(low), abs(high));
  float largest = max(max(larger.x, larger.y), max(larger.z, larger.w));
  largest = max(largest, subgroupShuffleXor(largest, 1));
  largest = max(largest, subgroupShuffleXor(largest, 2));
  const uint half_scale = packHalf2x16(vec2(largest / 127, 0)) & 0xffff;
  const float scale = scale_of(half_scale), inverse = scale > 0 ? 1 / scale : 0;
  const uvec2 own = uvec2(bytes_of(low * inverse), bytes_of(high * inverse)), next = subgroupShuffleXor(own, 1);
  const uint scales = half_scale | subgroupShuffleXor(half_scale, 4) << 16;

  const uint tile = (head * p.capacity + slot / TILE_ROWS * TILE_ROWS) * Q8_SLOT_WORDS(DIM), r = slot % TILE_ROWS;
  const uint first_scale = tile + TILE_ROWS * Q8_WORDS(DIM) * 4;
  if (key) {
    if (word % 2 == 0) keys[tile / 4 + IN_KEYS(r, word / 2, Q8_WORDS(DIM))] = uvec4(own, next);
    if (word % 8 == 0) key_scales[first_scale + IN_KEYS(r, word / 8, Q8_SCALE_WORDS(DIM))] = scales;
  } else {
    if (word % 2 == 0) values[tile / 4 + r * Q8_WORDS(DIM) + word / 2] = uvec4(own, next);
    if (word % 8 == 0) value_scales[first_scale + r * Q8_SCALE_WORDS(DIM) + word / 8] = scales;
  }
}

// Grid: x the tokens, y their words of eight dimensions, those of q, k and v: llvmpipe's cores have as many of a short prompt's tokens each.
void main() {
  const Owner owner = owner_of(gl_WorkGroupID.x);
  const uint token = owner.row, words = DIM / 8;
  const uint position = owner.position, first_head = owner.slot * p.kv_heads;  // of the session's cache
  if (owner.place >= owner.context || is_spare(owner)) return;
  const uint item = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x, head = item / words, word = item % words, slot = owner.place % p.capacity;
  if (head >= p.heads + 2 * p.kv_heads) return;
  const uint texel = (token * p.in_stride + head * DIM) / 4;
  const bool rotates_here = head < p.heads + p.kv_heads;
  const vec4 low = rotates_here ? rotated(texel, word * 2, position) : input_at(texel + word * 2);
  const vec4 high = rotates_here ? rotated(texel, word * 2 + 1, position) : input_at(texel + word * 2 + 1);
  if (head < p.heads) {
    const uint at = (token * p.out_stride + head * DIM) / 4 + word * 2;
    q[at] = low;
    q[at + 1] = high;
    return;
  }
  if (FORMAT == FORMAT_Q8) {
    const uint cached = head - p.heads;
    write_blocks(rotates_here, first_head + cached % p.kv_heads, word, slot, low, high);
    return;
  }
  const uvec4 halves = uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
  if (rotates_here)
    keys[((first_head + head - p.heads) * p.capacity + slot / TILE_ROWS * TILE_ROWS) * words + IN_KEYS(slot % TILE_ROWS, word, words)] = halves;
  else
    values[((first_head + head - p.heads - p.kv_heads) * p.capacity + slot) * words + word] = halves;
}

#else
layout(local_size_x = 64) in;

layout(std430, binding = 1) readonly buffer Input { float qkv[]; };
layout(std430, binding = 2) readonly buffer RopeTable { vec2 rope_table[]; };
layout(std430, binding = 3) writeonly buffer Queries { float q[]; };
layout(std430, binding = 4) writeonly buffer Keys { uint keys[]; };
layout(std430, binding = 5) writeonly buffer Values { uint values[]; };

#include "lib/rotate_one.glsl"
float rotated(uint head, uint d, uint position) { return rotated(head, d, position, p.rotary_dim, p.adjacent != 0); }

// Dimension d of a key or value; zero after head_dim.
float dimension(uint head, uint d, bool key, uint position) { return d >= p.head_dim ? 0 : key ? rotated(head, d, position) : qkv[head + d]; }

// Two blocks of a head of keys or values, and the word of their scales. first_head: of the session's cache.
void write_blocks(uint first_head, uint head, uint pair, bool key, uint row, uint position, uint slot) {
  const uint blocks = (p.head_dim + BLOCK - 1) / BLOCK, words = Q8_WORDS(p.head_dim);
  const uint start = row + (p.heads + (key ? 0 : p.kv_heads) + head) * p.head_dim;
  const uint tile = ((first_head + head) * p.capacity + slot / TILE_ROWS * TILE_ROWS) * Q8_SLOT_WORDS(p.head_dim), r = slot % TILE_ROWS;
  uint scales = 0;
  for (uint b = pair * 2; b < min(pair * 2 + 2, blocks); ++b) {
    float largest = 0;
    for (uint i = 0; i < BLOCK; ++i) largest = max(largest, abs(dimension(start, b * BLOCK + i, key, position)));
    const uint half_scale = packHalf2x16(vec2(largest / 127, 0)) & 0xffff;
    const float scale = scale_of(half_scale), inverse = scale > 0 ? 1 / scale : 0;
    scales |= half_scale << (b % 2 * 16);
    for (uint w = 0; w < min(words * 4 - b * 8, 8); ++w) {
      uint word = 0;
      for (uint i = 0; i < 4; ++i)
        word |= (uint(int(clamp(round(dimension(start, b * BLOCK + w * 4 + i, key, position) * inverse), -127, 127))) & 0xff) << (8 * i);
      if (key)
        keys[tile + IN_KEYS(r, b * 2 + w / 4, words) * 4 + w % 4] = word;
      else
        values[tile + r * words * 4 + b * 8 + w] = word;
    }
  }
  const uint at = tile + TILE_ROWS * words * 4;
  if (key)
    keys[at + IN_KEYS(r, pair, Q8_SCALE_WORDS(p.head_dim))] = scales;
  else
    values[at + r * Q8_SCALE_WORDS(p.head_dim) + pair] = scales;
}

// Grid: x covers the work items of a token (query elements, key words, value words, in that order; in q8, pairs of blocks
// of keys and of values); y the tokens.
void main() {
  const Owner owner = owner_of(gl_WorkGroupID.y);
  const uint token = owner.row, position = owner.position, first_head = owner.slot * p.kv_heads;  // of the session's cache
  if (owner.place >= owner.context || is_spare(owner)) return;
  const uint row = token * p.in_stride, slot = owner.place % p.capacity;
  uint item = gl_GlobalInvocationID.x;

  const uint query_items = p.heads * p.head_dim;
  if (item < query_items) {
    q[token * p.out_stride + item] = rotated(row + item / p.head_dim * p.head_dim, item % p.head_dim, position);
    return;
  }
  item -= query_items;
  if (FORMAT == FORMAT_Q8) {
    const uint pairs = (p.head_dim + 2 * BLOCK - 1) / (2 * BLOCK), of_keys = p.kv_heads * pairs;
    if (item < 2 * of_keys)
      write_blocks(first_head, item % of_keys / pairs, item % pairs, item < of_keys, row, position, slot);
    return;
  }
  const uint key_words = (p.head_dim + 7) / 8 * 4;  // 32-bit words, whole 16-byte words
  if (item < p.kv_heads * key_words) {
    const uint head = item / key_words, word = item % key_words, d = word * 2;
    const uint start = row + query_items + head * p.head_dim;
    const float low = d < p.head_dim ? rotated(start, d, position) : 0;
    const float high = d + 1 < p.head_dim ? rotated(start, d + 1, position) : 0;
    const uint tile = ((first_head + head) * p.capacity + slot / TILE_ROWS * TILE_ROWS) * key_words;
    keys[tile + IN_KEYS(slot % TILE_ROWS, word / 4, key_words / 4) * 4 + word % 4] = packHalf2x16(vec2(low, high));
    return;
  }
  item -= p.kv_heads * key_words;
  const uint value_words = p.head_dim / 2;
  if (item < p.kv_heads * value_words) {
    const uint head = item / value_words, word = item % value_words;
    const uint start = row + query_items + (p.kv_heads + head) * p.head_dim + word * 2;
    values[((first_head + head) * p.capacity + slot) * value_words + word] = packHalf2x16(vec2(qkv[start], qkv[start + 1]));
  }
}
#endif
