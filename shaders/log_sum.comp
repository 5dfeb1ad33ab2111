// ln(sum(exp(logits))) of each softmax, over its own rows of the vocabulary. One workgroup a softmax.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"

layout(std430, binding = 0) readonly buffer Logits { float logits[]; };  // (softmaxes, stride)
layout(std430, binding = 1) readonly buffer Bounds { uint bounds[]; };   // (softmaxes, 2) first row and end
layout(std430, binding = 2) writeonly buffer Sums { float sums[]; };     // (softmaxes)
layout(push_constant) uniform Push { LogSumPush p; };

void main() {
  const uint softmax = gl_WorkGroupID.x, row = softmax * p.stride, end = bounds[2 * softmax + 1];
  const uint first = bounds[2 * softmax] + gl_LocalInvocationID.x;
  float peak = -3.4e38;
  for (uint i = first; i < end; i += THREADS) peak = max(peak, logits[row + i]);
  peak = workgroup_max(peak);
  float sum = 0;
  for (uint i = first; i < end; i += THREADS) sum += exp(logits[row + i] - peak);
  sum = workgroup_sum(sum);
  if (gl_LocalInvocationID.x == 0) sums[softmax] = peak + log(sum);
}
