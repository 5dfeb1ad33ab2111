// rope.comp for llvmpipe: eight dimensions a lane, which it reads as texels and writes as words of 16 bytes. For caches of f16 and heads whose
// rotary halves are whole words.
// Variant of: rope
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "abi.h"

layout(constant_id = 0) const uint DIM = 64;  // of a head
layout(constant_id = 1) const uint ADJACENT = 0;
layout(local_size_x = 8) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(binding = 1) uniform usamplerBuffer qkv;    // as in rope.comp, four floats each
layout(binding = 2) uniform usamplerBuffer turns;  // likewise, two pairs of cosine and sine each
layout(std430, binding = 3) writeonly buffer Queries { vec4 q[]; };
layout(std430, binding = 4) writeonly buffer Keys { uvec4 keys[]; };
layout(std430, binding = 5) writeonly buffer Values { uvec4 values[]; };
layout(push_constant) uniform Push { RopePush p; };

vec4 input_at(uint i) { return uintBitsToFloat(texelFetch(qkv, int(i))); }
vec4 turns_at(uint i) { return uintBitsToFloat(texelFetch(turns, int(i))); }

#define ROTARY_DIM p.rotary_dim
#include "lib/turn.glsl"

// Grid: x the tokens, y their words of eight dimensions, those of q, k and v: llvmpipe's cores have as many of a short prompt's tokens each.
void main() {
  const uint token = gl_WorkGroupID.x, position = state.pos + token, words = DIM / 8;
  if (position >= state.context || (token > 0 && position >= state.end)) return;
  const uint item = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x, head = item / words, word = item % words, slot = position % p.capacity;
  if (head >= p.heads + 2 * p.kv_heads) return;
  const uint texel = (token * p.in_stride + head * DIM) / 4;
  const bool turns_here = head < p.heads + p.kv_heads;
  const vec4 low = turns_here ? turned(texel, word * 2, position) : input_at(texel + word * 2);
  const vec4 high = turns_here ? turned(texel, word * 2 + 1, position) : input_at(texel + word * 2 + 1);
  if (head < p.heads) {
    const uint at = (token * p.out_stride + head * DIM) / 4 + word * 2;
    q[at] = low;
    q[at + 1] = high;
    return;
  }
  const uvec4 halves = uvec4(packHalf2x16(low.xy), packHalf2x16(low.zw), packHalf2x16(high.xy), packHalf2x16(high.zw));
  if (head < p.heads + p.kv_heads)
    keys[((head - p.heads) * p.capacity + slot / TILE_ROWS * TILE_ROWS) * words + IN_KEYS(slot % TILE_ROWS, word, words)] = halves;
  else
    values[((head - p.heads - p.kv_heads) * p.capacity + slot) * words + word] = halves;
}
