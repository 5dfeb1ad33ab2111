// Rotary position embedding (Su et al. 2021) of queries and keys, and the write of keys and values to the cache.
// Keys are kept like a tiled f16 matrix of positions, so that attention reads them as rows_dot reads weights: per key/value
// head, tiles of TILE_ROWS positions, word k (8 dimensions) of position r at uvec4 IN_TILE(r, k, words). Values are
// kept row by row, two dimensions to a 32-bit word. The cache is a ring: a position is kept at slot position % capacity.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Input { float qkv[]; };  // (pass tokens, in_stride): q heads, k heads, v heads
layout(std430, binding = 2) readonly buffer Turns { vec2 turns[]; };  // (positions, rotary_dim / 2): cosine, sine
layout(std430, binding = 3) writeonly buffer Queries { float q[]; };  // (pass tokens, out_stride)
layout(std430, binding = 4) writeonly buffer Keys { uint keys[]; };
layout(std430, binding = 5) writeonly buffer Values { uint values[]; };
layout(push_constant) uniform Push { RopePush p; };

// Dimension d of the head that starts at qkv[head], turned for a position.
float turned(uint head, uint d, uint position) {
  if (d >= p.rotary_dim) return qkv[head + d];
  const uint half_dim = p.rotary_dim / 2;
  const bool first = p.adjacent != 0 ? d % 2 == 0 : d < half_dim;
  const uint pair = p.adjacent != 0 ? d / 2 : d % half_dim;
  const uint partner = p.adjacent != 0 ? d ^ 1 : (first ? d + half_dim : d - half_dim);
  const vec2 turn = turns[position * half_dim + pair];
  return qkv[head + d] * turn.x + (first ? -turn.y : turn.y) * qkv[head + partner];
}

// Grid: x covers the work items of a token (query elements, key words, value words, in that order); y the tokens.
void main() {
  const uint token = gl_WorkGroupID.y, position = state.pos + token;
  if (position >= state.context || (token > 0 && position >= state.end)) return;
  const uint row = token * p.in_stride, slot = position % p.capacity;
  uint item = gl_GlobalInvocationID.x;

  const uint query_items = p.heads * p.head_dim;
  if (item < query_items) {
    q[token * p.out_stride + item] = turned(row + item / p.head_dim * p.head_dim, item % p.head_dim, position);
    return;
  }
  item -= query_items;
  const uint key_words = (p.head_dim + 7) / 8 * 4;  // 32-bit words, whole 16-byte words
  if (item < p.kv_heads * key_words) {
    const uint head = item / key_words, word = item % key_words, d = word * 2;
    const uint start = row + query_items + head * p.head_dim;
    const float low = d < p.head_dim ? turned(start, d, position) : 0;
    const float high = d + 1 < p.head_dim ? turned(start, d + 1, position) : 0;
    const uint tile = (head * p.capacity + slot / TILE_ROWS * TILE_ROWS) * key_words;
    keys[tile + IN_TILE(slot % TILE_ROWS, word / 4, key_words / 4) * 4 + word % 4] = packHalf2x16(vec2(low, high));
    return;
  }
  item -= p.kv_heads * key_words;
  const uint value_words = p.head_dim / 2;
  if (item < p.kv_heads * value_words) {
    const uint head = item / value_words, word = item % value_words;
    const uint start = row + query_items + (p.kv_heads + head) * p.head_dim + word * 2;
    values[(head * p.capacity + slot) * value_words + word] = packHalf2x16(vec2(qkv[start], qkv[start + 1]));
  }
}
