// Rotary position embedding (Su et al. 2021) of queries and keys, and the write of keys and values to the cache.
// Keys are kept like a tiled matrix of positions, so that attention reads them as rows_dot reads weights: per key/value
// head, tiles of TILE_ROWS positions, in f16 word k (8 dimensions) of position r at uvec4 IN_KEYS(r, k, words). Values are
// kept row by row. abi.h has the layouts. The cache is a ring: a position is kept at slot position % capacity.
//
// WEFT_TEXEL is for llvmpipe: eight dimensions a lane, which it reads as texels and writes as words of 16 bytes. For heads whose rotary halves
// are whole words; in q8 and q4 those of whole pairs of blocks too, of which a workgroup has one.
// Variants: texel
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"
#include "lib/half.glsl"
#ifdef WEFT_TEXEL
#include "lib/lanes.glsl"
#endif

layout(constant_id = 0) const uint KEY_FORMAT = FORMAT_F16;  // FORMAT_Q4: rotated once more, as the queries are (abi.h)
layout(constant_id = 1) const uint MEMBER_TOKENS = 0;    // of each session of a batch
layout(constant_id = 2) const uint OF_TREE = 0;          // 1: the pass checks a tree
layout(constant_id = 3) const uint VALUE_FORMAT = FORMAT_F16;
#define TREE (OF_TREE != 0)
#include "lib/members.glsl"
#include "lib/cache_q4.glsl"
layout(push_constant) uniform Push { RopePush p; };
// qkv (pass tokens, in_stride): q heads, k heads, v heads; rope_table (positions, rotary_dim / 2): cosine, sine; q (pass tokens, out_stride).

#ifdef WEFT_TEXEL
layout(constant_id = 4) const uint DIM = 64;  // of a head
layout(constant_id = 5) const uint ADJACENT = 0;
layout(local_size_x = 8) in;

layout(binding = 1) uniform usamplerBuffer qkv;
layout(binding = 2) uniform usamplerBuffer rope_table;
layout(std430, binding = 3) writeonly buffer Queries { vec4 q[]; };
layout(std430, binding = 4) writeonly buffer Keys { uvec4 keys[]; };
layout(std430, binding = 4) writeonly buffer KeysAsScales { uint key_scales[]; };
layout(std430, binding = 5) writeonly buffer Values { uvec4 values[]; };
layout(std430, binding = 5) writeonly buffer ValuesAsScales { uint value_scales[]; };

vec4 input_at(uint i) { return uintBitsToFloat(texelFetch(qkv, int(i))); }
vec4 rope_table_at(uint i) { return uintBitsToFloat(texelFetch(rope_table, int(i))); }

#define ROTARY_DIM p.rotary_dim
#include "lib/rotate.glsl"

uint bytes_of(vec4 steps) {
  const uvec4 bytes = uvec4(ivec4(clamp(round(steps), -127, 127))) & 0xff;
  return bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24;
}

// A value of a lane's neighbours plus its own, or less its own in the later lane of the two.
vec4 butterfly(vec4 v, uint distance) {
  const vec4 other = subgroupShuffleXor(v, distance);
  return (gl_SubgroupInvocationID & distance) == 0 ? v + other : other - v;
}

// Rotates the blocks of FORMAT_Q4 of which four lanes have eight dimensions each (lib/cache_q4.glsl).
void rotate_blocks(inout vec4 low, inout vec4 high, uint word) {
  eight_rotated(low, high, word % 4 * 8);
  low = butterfly(butterfly(low, 1), 2);
  high = butterfly(butterfly(high, 1), 2);
}

// Where the slot's tile begins, in 32-bit words.
uint tile_of(uint head, uint slot, uint format) {
  return (head * p.capacity + slot / TILE_ROWS * TILE_ROWS) * CACHE_SLOT_WORDS(format, DIM);
}

// Eight lanes' dimensions, word `word` of each's head, as two blocks of FORMAT_Q4.
void write_q4(bool key, uint head, uint word, uint slot, vec4 low, vec4 high) {
  const vec4 least = min(low, high), most = max(low, high);
  vec2 ends = vec2(-min(min(least.x, least.y), min(least.z, least.w)), max(max(most.x, most.y), max(most.z, most.w)));  // the first with its sign changed
  ends = max(ends, vec2(subgroupShuffleXor(ends.x, 1), subgroupShuffleXor(ends.y, 1)));
  ends = max(ends, vec2(subgroupShuffleXor(ends.x, 2), subgroupShuffleXor(ends.y, 2)));
  const uint note = q4_note(-ends.x, ends.y);
  const uint own = q4_word(low, high, note);
  const uint one = subgroupShuffleXor(own, 1), two = subgroupShuffleXor(own, 2), three = subgroupShuffleXor(own, 3);
  if (word % 4 != 0) return;
  const uint tile = tile_of(head, slot, FORMAT_Q4), r = slot % TILE_ROWS, blocks = DIM / BLOCK, block = word / 4;
  const uint first_note = tile + TILE_ROWS * blocks * 4;
  if (key) {
    keys[tile / 4 + IN_KEYS(r, block, blocks)] = uvec4(own, one, two, three);
    key_scales[first_note + IN_KEYS(r, block, blocks)] = note;
  } else {
    values[tile / 4 + r * blocks + block] = uvec4(own, one, two, three);
    value_scales[first_note + r * blocks + block] = note;
  }
}

// The same as two blocks of FORMAT_Q8.
void write_q8(bool key, uint head, uint word, uint slot, vec4 low, vec4 high) {
  const vec4 larger = max(abs(low), abs(high));
  float largest = max(max(larger.x, larger.y), max(larger.z, larger.w));
  largest = max(largest, subgroupShuffleXor(largest, 1));
  largest = max(largest, subgroupShuffleXor(largest, 2));
  const uint half_scale = packHalf2x16(vec2(largest / 127, 0)) & 0xffff;
  const float scale = scale_of(half_scale), inverse = scale > 0 ? 1 / scale : 0;
  const uvec2 own = uvec2(bytes_of(low * inverse), bytes_of(high * inverse)), next = subgroupShuffleXor(own, 1);
  const uint scales = half_scale | subgroupShuffleXor(half_scale, 4) << 16;

  const uint tile = tile_of(head, slot, FORMAT_Q8), r = slot % TILE_ROWS;
  const uint words = CACHE_WORDS(FORMAT_Q8, DIM), scale_words = CACHE_SCALE_WORDS(FORMAT_Q8, DIM);
  const uint first_scale = tile + TILE_ROWS * words * 4;
  if (key) {
    if (word % 2 == 0) keys[tile / 4 + IN_KEYS(r, word / 2, words)] = uvec4(own, next);
    if (word % 8 == 0) key_scales[first_scale + IN_KEYS(r, word / 8, scale_words)] = scales;
  } else {
    if (word % 2 == 0) values[tile / 4 + r * words + word / 2] = uvec4(own, next);
    if (word % 8 == 0) value_scales[first_scale + r * scale_words + word / 8] = scales;
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
  vec4 low = rotates_here ? rotated(texel, word * 2, position) : input_at(texel + word * 2);
  vec4 high = rotates_here ? rotated(texel, word * 2 + 1, position) : input_at(texel + word * 2 + 1);
  if (KEY_FORMAT == FORMAT_Q4 && rotates_here) rotate_blocks(low, high, word);
  if (head < p.heads) {
    const uint at = (token * p.out_stride + head * DIM) / 4 + word * 2;
    q[at] = low;
    q[at + 1] = high;
    return;
  }
  const uint format = rotates_here ? KEY_FORMAT : VALUE_FORMAT, cached = first_head + (head - p.heads) % p.kv_heads;
  const uvec4 halves = uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
  if (format == FORMAT_Q8)
    write_q8(rotates_here, cached, word, slot, low, high);
  else if (format == FORMAT_Q4)
    write_q4(rotates_here, cached, word, slot, low, high);
  else if (rotates_here)
    keys[tile_of(cached, slot, FORMAT_F16) / 4 + IN_KEYS(slot % TILE_ROWS, word, words)] = halves;
  else
    values[(cached * p.capacity + slot) * words + word] = halves;
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

// A block of a head that starts at qkv[start], filled up with zeros. key: of a query or key, and rotated as FORMAT_Q4 has it.
void load_block(out float v[BLOCK], uint start, uint block, bool key, uint position) {
  [[unroll]] for (uint i = 0; i < BLOCK; ++i) v[i] = dimension(start, block * BLOCK + i, key, position);
  if (key && (block + 1) * BLOCK <= p.head_dim) rotate_block(v);
}

void write_query(uint row, uint out_row, uint block, uint position) {
  const uint blocks = CACHE_WORDS(FORMAT_Q4, p.head_dim), start = block / blocks * p.head_dim, first = block % blocks * BLOCK;
  float v[BLOCK];
  load_block(v, row + start, block % blocks, true, position);
  [[unroll]] for (uint i = 0; i < BLOCK; ++i)
    if (first + i < p.head_dim) q[out_row + start + first + i] = v[i];
}

// Where the slot's tile begins, in 32-bit words. head: of all sessions' caches.
uint tile_of(uint head, uint slot, uint format) {
  return (head * p.capacity + slot / TILE_ROWS * TILE_ROWS) * CACHE_SLOT_WORDS(format, p.head_dim);
}

// A block of a head of keys or values in FORMAT_Q4, and its scale and minimum.
void write_q4(uint first_head, uint head, uint block, bool key, uint row, uint position, uint slot) {
  const uint blocks = CACHE_WORDS(FORMAT_Q4, p.head_dim), tile = tile_of(first_head + head, slot, FORMAT_Q4), r = slot % TILE_ROWS;
  float v[BLOCK];
  load_block(v, row + (p.heads + (key ? 0 : p.kv_heads) + head) * p.head_dim, block, key, position);
  float least = v[0], most = v[0];
  [[unroll]] for (uint i = 1; i < BLOCK; ++i) {
    least = min(least, v[i]);
    most = max(most, v[i]);
  }
  const uint note = q4_note(least, most), note_at = tile + TILE_ROWS * blocks * 4;
  [[unroll]] for (uint w = 0; w < 4; ++w) {
    const uint i = w * 8, word = q4_word(vec4(v[i], v[i + 1], v[i + 2], v[i + 3]), vec4(v[i + 4], v[i + 5], v[i + 6], v[i + 7]), note);
    if (key)
      keys[tile + IN_KEYS(r, block, blocks) * 4 + w] = word;
    else
      values[tile + (r * blocks + block) * 4 + w] = word;
  }
  if (key)
    keys[note_at + IN_KEYS(r, block, blocks)] = note;
  else
    values[note_at + r * blocks + block] = note;
}

// Two blocks of a head of keys or values in FORMAT_Q8, and the word of their scales. first_head: of the session's cache.
void write_q8(uint first_head, uint head, uint pair, bool key, uint row, uint position, uint slot) {
  const uint blocks = (p.head_dim + BLOCK - 1) / BLOCK, words = CACHE_WORDS(FORMAT_Q8, p.head_dim);
  const uint scale_words = CACHE_SCALE_WORDS(FORMAT_Q8, p.head_dim);
  const uint start = row + (p.heads + (key ? 0 : p.kv_heads) + head) * p.head_dim;
  const uint tile = tile_of(first_head + head, slot, FORMAT_Q8), r = slot % TILE_ROWS;
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
    keys[at + IN_KEYS(r, pair, scale_words)] = scales;
  else
    values[at + r * scale_words + pair] = scales;
}

// Two dimensions of a key, and of a value.
void write_key_halves(uint first_head, uint head, uint word, uint row, uint position, uint slot) {
  const uint key_words = (p.head_dim + 7) / 8, d = word * 2, start = row + (p.heads + head) * p.head_dim;
  const uint halves = packHalf2x16(vec2(dimension(start, d, true, position), dimension(start, d + 1, true, position)));
  keys[tile_of(first_head + head, slot, FORMAT_F16) + IN_KEYS(slot % TILE_ROWS, word / 4, key_words) * 4 + word % 4] = halves;
}

void write_value_halves(uint first_head, uint head, uint word, uint row, uint slot) {
  const uint start = row + (p.heads + p.kv_heads + head) * p.head_dim + word * 2;
  values[((first_head + head) * p.capacity + slot) * (p.head_dim / 2) + word] = packHalf2x16(vec2(qkv[start], qkv[start + 1]));
}

// Work items of a head's key or value: 32-bit words, pairs of blocks, or blocks.
uint items_of(uint format, bool key) {
  if (format == FORMAT_F16) return key ? (p.head_dim + 7) / 8 * 4 : p.head_dim / 2;
  return CACHE_SCALE_WORDS(format, p.head_dim);
}

// Grid: x covers the work items of a token: of queries (elements, or blocks if they are rotated as keys of FORMAT_Q4 are), keys and values, in
// that order; y the tokens.
void main() {
  const Owner owner = owner_of(gl_WorkGroupID.y);
  const uint token = owner.row, position = owner.position, first_head = owner.slot * p.kv_heads;  // of the session's cache
  if (owner.place >= owner.context || is_spare(owner)) return;
  const uint row = token * p.in_stride, slot = owner.place % p.capacity;
  uint item = gl_GlobalInvocationID.x;

  const uint query_items = p.heads * (KEY_FORMAT == FORMAT_Q4 ? CACHE_WORDS(FORMAT_Q4, p.head_dim) : p.head_dim);
  if (item < query_items) {
    if (KEY_FORMAT == FORMAT_Q4)
      write_query(row, token * p.out_stride, item, position);
    else
      q[token * p.out_stride + item] = rotated(row + item / p.head_dim * p.head_dim, item % p.head_dim, position);
    return;
  }
  item -= query_items;
  const uint of_key = items_of(KEY_FORMAT, true), of_value = items_of(VALUE_FORMAT, false), key_items = p.kv_heads * of_key;
  const bool key = item < key_items;
  if (!key) item -= key_items;
  const uint format = key ? KEY_FORMAT : VALUE_FORMAT, each = key ? of_key : of_value, head = item / each, part = item % each;
  if (head >= p.kv_heads) return;
  if (format == FORMAT_Q8)
    write_q8(first_head, head, part, key, row, position, slot);
  else if (format == FORMAT_Q4)
    write_q4(first_head, head, part, key, row, position, slot);
  else if (key)
    write_key_halves(first_head, head, part, row, position, slot);
  else
    write_value_halves(first_head, head, part, row, slot);
}
#endif
