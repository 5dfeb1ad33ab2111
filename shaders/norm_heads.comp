// RMSNorm of queries and keys, head by head and in place (Dehghani et al. 2023, "Scaling vision transformers to 22 billion
// parameters", section 2; with RMSNorm as Qwen3 and Gemma 3 have it). One workgroup a head and token.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"

layout(std430, binding = 0) readonly buffer State { StepState state; };
// (3, head_dim): of queries, of keys, of values; of whole rows, those of q and then those of k.
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) buffer Heads { float qkv[]; };               // (pass tokens, stride): q heads, k heads, v heads
layout(push_constant) uniform Push { NormHeadsPush p; };

// Grid: x the heads of q and k, or of q, k and v, or the rows q and k; y the tokens.
void main() {
  const uint head = gl_WorkGroupID.x, token = gl_WorkGroupID.y;
  if (token > 0 && state.pos + token >= state.end) return;
  const uint kind = p.whole != 0 ? head : head < p.heads ? 0 : head < p.heads + p.kv_heads ? 1 : 2;
  const uint dim = p.whole != 0 ? (kind == 0 ? p.heads : p.kv_heads) * p.head_dim : p.head_dim;
  const uint before = p.whole != 0 ? kind * p.heads * p.head_dim : head * p.head_dim, first = token * p.stride + before;
  const uint from = p.whole != 0 ? before : kind * p.head_dim;
  float sum = 0;
  for (uint i = gl_LocalInvocationID.x; i < dim; i += THREADS) sum += qkv[first + i] * qkv[first + i];
  const float scale = inversesqrt(workgroup_sum(sum) / float(dim) + p.epsilon);
  for (uint i = gl_LocalInvocationID.x; i < dim; i += THREADS) qkv[first + i] = qkv[first + i] * scale * weight[from + i];
}
