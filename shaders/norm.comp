// RMSNorm (Zhang and Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) * weight; or LayerNorm (Ba, Kiros and Hinton 2016):
// y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias. One workgroup a token.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"

layout(constant_id = 1) const uint KIND = NORM_RMS;
layout(constant_id = 2) const uint ADD = 0;  // 1: y += the norm

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Input { float x[]; };        // (pass tokens, in_stride)
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };  // (cols); NORM_LAYER: (2, cols), the biases behind
layout(std430, binding = 3) buffer Output { float y[]; };                // (pass tokens, out_stride)
layout(push_constant) uniform Push { NormPush p; };

void main() {
  uint token = gl_WorkGroupID.x, out_row = token;
  if (p.last_only != 0) {
    token = max(state.end - state.pos, 1) - 1;
    out_row = 0;
  } else if (token > 0 && state.pos + token >= state.end) {
    return;
  }
  float mean = 0;
  if (KIND == NORM_LAYER) {
    for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) mean += x[token * p.in_stride + i];
    mean = workgroup_sum(mean) / float(p.cols);
  }
  float sum = 0;
  for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) {
    float value = x[token * p.in_stride + i];
    if (KIND == NORM_LAYER) value -= mean;
    sum += value * value;
  }
  const float scale = inversesqrt(workgroup_sum(sum) / float(p.cols) + p.epsilon);
  for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) {
    float value = x[token * p.in_stride + i];
    if (KIND == NORM_LAYER) value -= mean;
    value = value * scale * weight[i];
    if (KIND == NORM_LAYER) value += weight[p.cols + i];
    if (ADD != 0) value += y[out_row * p.out_stride + i];
    y[out_row * p.out_stride + i] = value;
  }
}
