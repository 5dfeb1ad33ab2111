// Gates what a mixer has computed, in place, and norms it: by groups, which are heads (Gated DeltaNet), or parts of a row (Mamba-2). The norm
// is RMSNorm. Or gates a token by its per-layer embedding (Gemma 4). One workgroup a group and token.
// Variants: subgroup
// Optional: weight
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"

layout(constant_id = 1) const uint KIND = GATE_SIGMOID;

const uint ACTIVATION = ACTIVATION_GELU_TANH;  // of GATE_OF_GELU
#include "lib/activation.glsl"

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Gates { float gates[]; };    // (pass tokens, gate_stride)
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };  // of the norm
layout(std430, binding = 3) buffer Rows { float x[]; };                  // (pass tokens, stride)
layout(push_constant) uniform Push { GatePush p; };

// Grid: x the groups, y the tokens.
void main() {
  const uint group = gl_WorkGroupID.x, token = gl_WorkGroupID.y;
  if (token > 0 && state.pos + token >= state.end) return;
  const uint first = token * p.stride + group * p.cols;
  const uint gate_first = token * p.gate_stride + p.gate_at + group * (KIND == GATE_OF_GROUP ? 1 : p.cols);
  float squares = 0;
  for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) {
    const float gate = gates[gate_first + (KIND == GATE_OF_GROUP ? 0 : i)], value = x[first + i], sigmoid = 1 / (1 + exp(-gate));
    if (KIND == GATE_SIGMOID || KIND == GATE_OF_GROUP) x[first + i] = value * sigmoid;
    if (KIND == GATE_THEN_NORM) x[first + i] = value * gate * sigmoid;
    if (KIND == GATE_OF_GELU) x[first + i] = activated(value) * gate;
    const float normed = KIND == GATE_THEN_NORM ? value * gate * sigmoid : value;
    squares += normed * normed;
  }
  if (KIND != GATE_AFTER_NORM && KIND != GATE_THEN_NORM) return;
  const float scale = inversesqrt(workgroup_sum(squares) / float(p.cols) + p.epsilon);
  for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) {
    float value = x[first + i] * scale * weight[group * p.weight_stride + i];
    if (KIND == GATE_AFTER_NORM) {
      const float gate = gates[gate_first + i];
      value *= gate / (1 + exp(-gate));
    }
    x[first + i] = value;
  }
}
