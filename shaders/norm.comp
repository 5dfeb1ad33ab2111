// RMSNorm (Zhang and Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) * weight. One workgroup a token.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Input { float x[]; };        // (pass tokens, in_stride)
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };  // (cols)
layout(std430, binding = 3) writeonly buffer Output { float y[]; };      // (pass tokens, out_stride)
layout(push_constant) uniform Push { NormPush p; };

void main() {
  uint token = gl_WorkGroupID.x, out_row = token;
  if (p.last_only != 0) {
    token = max(state.end - state.pos, 1) - 1;
    out_row = 0;
  } else if (token > 0 && state.pos + token >= state.end) {
    return;
  }
  float sum = 0;
  for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS) {
    const float value = x[token * p.in_stride + i];
    sum += value * value;
  }
  const float scale = inversesqrt(workgroup_sum(sum) / float(p.cols) + p.epsilon);
  for (uint i = gl_LocalInvocationID.x; i < p.cols; i += THREADS)
    y[out_row * p.out_stride + i] = x[token * p.in_stride + i] * scale * weight[i];
}
