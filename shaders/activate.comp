// The feed-forward's activation: y = f(gate) * up (Shazeer 2020, "GLU variants improve transformer"), or y = f(up).
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(constant_id = 0) const uint ACTIVATION = ACTIVATION_SILU;
layout(constant_id = 1) const uint GATED = 1;
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Input { float x[]; };    // (pass tokens, in_stride): gate and up, or up
layout(std430, binding = 2) writeonly buffer Output { float y[]; };  // (pass tokens, out_stride)
layout(push_constant) uniform Push { ActivatePush p; };

// 1 - erf(z) for z >= 0, to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26).
float erfc_of(float z) {
  const float t = 1 / (1 + 0.3275911 * z);
  return t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * exp(-z * z);
}

float activated(float v) {
  if (ACTIVATION == ACTIVATION_RELU) return max(v, 0);
  if (ACTIVATION == ACTIVATION_SILU) return v / (1 + exp(-v));
  if (ACTIVATION == ACTIVATION_GELU_TANH)  // v (1 + tanh(u)) / 2, without a tanh that may overflow
    return v / (1 + exp(-1.5957691216 * (v + 0.044715 * v * v * v)));
  const float tail = 0.5 * erfc_of(abs(v) * 0.70710678);  // GELU (Hendrycks and Gimpel 2016)
  return v * (v < 0 ? tail : 1 - tail);
}

void main() {
  const uint token = gl_WorkGroupID.y, i = gl_GlobalInvocationID.x;
  if (i >= p.cols || (token > 0 && state.pos + token >= state.end)) return;
  const float first = activated(x[token * p.in_stride + i]);
  y[token * p.out_stride + i] = GATED != 0 ? first * x[token * p.in_stride + p.cols + i] : first;
}
