// Moves the keys and values of a tree's chosen rows to the slots of their positions (follow_rows.comp). The layout is that of rope.comp.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
layout(local_size_x = 64) in;

layout(constant_id = 0) const uint FORMAT = FORMAT_F16;  // of the cache
layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) buffer Keys { uint keys[]; };
layout(std430, binding = 2) buffer Values { uint values[]; };
layout(push_constant) uniform Push { FollowCachePush p; };

// Where 32-bit word i of a slot lies, of a key or of a value.
uint place_of(uint head, uint slot, uint i, bool key) {
  const uint r = slot % TILE_ROWS, tile = head * p.capacity + slot - r;
  if (FORMAT == FORMAT_F16) {
    const uint key_words = (p.head_dim + 7) / 8, value_words = p.head_dim / 2;
    return key ? (tile * key_words + IN_KEYS(r, i / 4, key_words)) * 4 + i % 4 : (tile + r) * value_words + i;
  }
  const uint words = Q8_WORDS(p.head_dim) * 4, scale_words = Q8_SCALE_WORDS(p.head_dim);
  const uint first = tile * Q8_SLOT_WORDS(p.head_dim), scales = first + TILE_ROWS * words;
  if (i >= words) return scales + (key ? IN_KEYS(r, i - words, scale_words) : r * scale_words + i - words);
  return first + (key ? IN_KEYS(r, i / 4, words / 4) * 4 + i % 4 : r * words + i);
}

// Grid: x key/value heads, y keys and values.
void main() {
  const bool key = gl_WorkGroupID.y == 0;
  const uint head = gl_WorkGroupID.x, length = PATH_LENGTH(state.path);
  const uint words = FORMAT == FORMAT_Q8 ? Q8_SLOT_WORDS(p.head_dim) : key ? (p.head_dim + 7) / 8 * 4 : p.head_dim / 2;
  for (uint i = gl_LocalInvocationID.x; i < words; i += gl_WorkGroupSize.x)
    for (uint depth = 1; depth <= length; ++depth) {
      const uint row = PATH_ROW(state.path, depth);
      if (row == depth) continue;
      const uint from = place_of(head, (state.root + row) % p.capacity, i, key);
      const uint to = place_of(head, (state.root + depth) % p.capacity, i, key);
      if (key)
        keys[to] = keys[from];
      else
        values[to] = values[from];
    }
}
