// Moves the keys and values of a tree's chosen rows to the slots of their positions (follow_rows.comp). The layout is that of rope.comp.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
layout(local_size_x = 64) in;

layout(constant_id = 0) const uint KEY_FORMAT = FORMAT_F16;
layout(constant_id = 1) const uint VALUE_FORMAT = FORMAT_F16;
layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) buffer Keys { uint keys[]; };
layout(std430, binding = 2) buffer Values { uint values[]; };
layout(push_constant) uniform Push { FollowCachePush p; };

// Where 32-bit word i of a slot lies, of a key or of a value.
uint place_of(uint head, uint slot, uint i, bool key) {
  const uint r = slot % TILE_ROWS, tile = head * p.capacity + slot - r, format = key ? KEY_FORMAT : VALUE_FORMAT;
  if (!key && format == FORMAT_F16) return (tile + r) * (p.head_dim / 2) + i;
  const uint words = CACHE_WORDS(format, p.head_dim) * 4, scale_words = CACHE_SCALE_WORDS(format, p.head_dim);
  const uint first = tile * CACHE_SLOT_WORDS(format, p.head_dim), scales = first + TILE_ROWS * words;
  if (i >= words) return scales + (key ? IN_KEYS(r, i - words, scale_words) : r * scale_words + i - words);
  return first + (key ? IN_KEYS(r, i / 4, words / 4) * 4 + i % 4 : r * words + i);
}

// Grid: x key/value heads, y keys and values.
void main() {
  const bool key = gl_WorkGroupID.y == 0;
  const uint head = gl_WorkGroupID.x, length = PATH_LENGTH(state.path);
  const bool plain = !key && VALUE_FORMAT == FORMAT_F16;
  const uint words = plain ? p.head_dim / 2 : CACHE_SLOT_WORDS(key ? KEY_FORMAT : VALUE_FORMAT, p.head_dim);
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
