// ln(sum(exp(logits))) of each softmax, over its own rows of the vocabulary; at least the greatest logit. One workgroup a softmax.
// Variants: subgroup
// Optional: clusters
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"

layout(constant_id = 1) const uint FRESH = 0;  // 1: only of clusters that choose_clusters has just added

layout(std430, binding = 0) readonly buffer Logits { float logits[]; };  // (softmaxes, stride)
layout(std430, binding = 1) readonly buffer Bounds { uint bounds[]; };   // (softmaxes, 2) first row and end
layout(std430, binding = 2) writeonly buffer Sums { float sums[]; };     // (softmaxes)
layout(std430, binding = 3) readonly buffer Clusters { ClusterState clusters; };
layout(push_constant) uniform Push { LogSumPush p; };

void main() {
  const uint softmax = p.first + gl_WorkGroupID.x;
  if (FRESH != 0 && (clusters.fresh >> softmax & 1) == 0) return;
  const uint row = softmax * p.stride, end = bounds[2 * softmax + 1];
  const uint first = bounds[2 * softmax] + gl_LocalInvocationID.x;
  float peak = -3.4e38;
  for (uint i = first; i < end; i += THREADS) peak = max(peak, logits[row + i]);
  peak = workgroup_max(peak);
  float sum = 0;
  for (uint i = first; i < end; i += THREADS) sum += exp(logits[row + i] - peak);
  sum = workgroup_sum(sum);
  // exp(0) and log(1) may be off in their last bits. A sum below the peak would make a row more probable than its softmax.
  if (gl_LocalInvocationID.x == 0) sums[softmax] = peak + max(log(sum), 0);
}
