// Prepares the rows that a layer of linear attention reads (abi.h, prepared), from projected ones: q, k and v are silu(conv(inputs)), a short
// convolution of each column by itself; with the delta rule, q and k are then normed to length 1 head by head, and q is divided by
// sqrt(key_dim). Gated DeltaNet (Yang, Kautz and Hatamizadeh 2024): decay = exp(A softplus(a + dt_bias)), rate = sigmoid(b). Mamba-2 (Dao and
// Gu 2024): rate = softplus(dt + dt_bias), decay = exp(A rate). One workgroup a head and token, and one for the token's decays and rates.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"

layout(constant_id = 1) const uint MEMBER_TOKENS = 0;  // of each session of a batch
layout(constant_id = 2) const uint TAPS = 4;
layout(constant_id = 3) const uint BIASED = 0;
layout(constant_id = 4) const uint DELTA = 1;  // 0: Mamba-2
layout(constant_id = 5) const uint KEY_HEADS = 1;
layout(constant_id = 6) const uint HEADS = 1;
layout(constant_id = 7) const uint KEY_DIM = 128;
layout(constant_id = 8) const uint VALUE_DIM = 128;
#include "lib/members.glsl"

layout(std430, binding = 1) readonly buffer Projected { float projected[]; };  // (pass tokens, in_stride)
layout(std430, binding = 2) readonly buffer Weights { float weights[]; };  // (conv columns, TAPS) | their biases | A (HEADS) | dt_bias (HEADS)
layout(std430, binding = 3) readonly buffer Kept { float kept[]; };
layout(std430, binding = 4) buffer Prepared { float prepared[]; };  // (pass tokens, out_stride)
layout(push_constant) uniform Push { ScanInputsPush p; };

const uint KEYS = KEY_HEADS * KEY_DIM, VALUES = HEADS * VALUE_DIM, CONV = 2 * KEYS + VALUES;

float sigmoid(float x) { return 1 / (1 + exp(-x)); }
float softplus(float x) { return x > 20 ? x : log(1 + exp(x)); }

// Column `col` of the convolution's input, `back` tokens before the owner's.
float input_at(Owner o, uint col, uint back) {
  if (o.token >= back) return projected[(o.row - back) * p.in_stride + p.conv_at + col];
  if (o.position < back) return 0;
  return kept[(o.slot * p.kept_capacity + (o.position - back) % p.kept_capacity) * p.kept_stride + col];
}

void decays_and_rates(Owner o) {
  const uint from = o.row * p.in_stride + p.gates_at, to = o.row * p.out_stride + KEYS + VALUES;
  const uint a_at = CONV * (TAPS + BIASED);
  for (uint head = gl_LocalInvocationID.x; head < HEADS; head += THREADS) {
    const float dt = softplus(projected[from + head] + weights[a_at + HEADS + head]);
    prepared[to + head] = exp(weights[a_at + head] * dt);
    prepared[to + HEADS + head] = DELTA != 0 ? sigmoid(projected[from + HEADS + head]) : dt;
  }
}

// Grid: x the heads of q, of k and of v, then one more; y the tokens.
void main() {
  const Owner owner = owner_of(gl_WorkGroupID.y);
  if (is_spare(owner) || owner.position >= owner.context) return;
  const uint unit = gl_WorkGroupID.x;
  if (unit == 2 * KEY_HEADS + HEADS) {
    decays_and_rates(owner);
    return;
  }
  const bool is_query = unit < KEY_HEADS, is_key = !is_query && unit < 2 * KEY_HEADS;
  const uint head = is_query ? unit : is_key ? unit - KEY_HEADS : unit - 2 * KEY_HEADS;
  const uint dim = is_query || is_key ? KEY_DIM : VALUE_DIM;
  // The convolution's columns are q, k, v with the delta rule; v, k, q (x, B, C) in Mamba-2.
  const uint query_at = DELTA != 0 ? 0 : VALUES + KEYS, key_at = DELTA != 0 ? KEYS : VALUES, value_at = DELTA != 0 ? 2 * KEYS : 0;
  const uint first = (is_query ? query_at : is_key ? key_at : value_at) + head * dim;
  const uint to = owner.row * p.out_stride + (is_query ? KEYS + VALUES + 2 * HEADS : is_key ? 0 : KEYS) + head * dim;
  float squares = 0;
  for (uint i = gl_LocalInvocationID.x; i < dim; i += THREADS) {
    const uint col = first + i;
    float sum = BIASED != 0 ? weights[CONV * TAPS + col] : 0;
    for (uint k = 0; k < TAPS; ++k) sum += weights[col * TAPS + TAPS - 1 - k] * input_at(owner, col, k);
    const float value = sum * sigmoid(sum);
    prepared[to + i] = value;
    squares += value * value;
  }
  if (DELTA == 0 || !(is_query || is_key)) return;
  const float scale = inversesqrt(workgroup_sum(squares) + p.epsilon) * (is_query ? inversesqrt(float(KEY_DIM)) : 1);
  for (uint i = gl_LocalInvocationID.x; i < dim; i += THREADS) prepared[to + i] *= scale;
}
