// ln(sum(exp(logits))) of each softmax, over its own rows of the vocabulary; at least the greatest logit. Each workgroup adds PART_ROWS rows up;
// the one of a softmax that finishes last joins what they have found.
// Variants: subgroup
// Optional: clusters
#version 450
#extension GL_GOOGLE_include_directive : require
#include "narrowed.h"
#include "lib/reduce.glsl"

layout(constant_id = 1) const uint FRESH = 0;  // 1: only of clusters that choose_clusters has just added

layout(std430, binding = 0) readonly buffer Logits { float logits[]; };  // (softmaxes, stride)
layout(std430, binding = 1) readonly buffer Bounds { uint bounds[]; };   // (softmaxes, 2) first row and end
// The sums (MAX_SOFTMAXES floats), then of each softmax the number of workgroups that have finished, which is zero between dispatches, and the
// peak and the sum of each.
layout(std430, binding = 2) coherent buffer Sums { uint sums[]; };
layout(std430, binding = 3) readonly buffer Clusters { ClusterState clusters; };
layout(push_constant) uniform Push { LogSumPush p; };

shared uint arrived;

// Grid: x the softmaxes, y PART_ROWS rows a workgroup.
void main() {
  const uint softmax = p.first + gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  if (FRESH != 0 && (clusters.fresh >> softmax & 1) == 0) return;
  const uint row = softmax * p.stride, first = bounds[2 * softmax], end = bounds[2 * softmax + 1];
  const uint groups = max((end - first + PART_ROWS - 1) / PART_ROWS, 1);
  if (gl_WorkGroupID.y >= groups) return;
  const uint begin = first + gl_WorkGroupID.y * PART_ROWS, part_end = min(end, begin + PART_ROWS);
  float peak = -3.4e38;
  for (uint i = begin + lane; i < part_end; i += THREADS) peak = max(peak, logits[row + i]);
  peak = workgroup_max(peak);
  float sum = 0;
  for (uint i = begin + lane; i < part_end; i += THREADS) sum += exp(logits[row + i] - peak);
  sum = workgroup_sum(sum);
  if (groups > 1) {
    const uint finished = MAX_SOFTMAXES + softmax * (1 + 2 * gl_NumWorkGroups.y), parts = finished + 1;
    if (lane == 0) {
      sums[parts + 2 * gl_WorkGroupID.y] = floatBitsToUint(peak);
      sums[parts + 2 * gl_WorkGroupID.y + 1] = floatBitsToUint(sum);
    }
    memoryBarrierBuffer();
    if (lane == 0) arrived = atomicAdd(sums[finished], 1);
    barrier();
    if (arrived + 1 != groups) return;
    memoryBarrierBuffer();
    if (lane == 0) sums[finished] = 0;
    peak = -3.4e38;
    for (uint i = lane; i < groups; i += THREADS) peak = max(peak, uintBitsToFloat(sums[parts + 2 * i]));
    peak = workgroup_max(peak);
    sum = 0;
    for (uint i = lane; i < groups; i += THREADS)
      sum += uintBitsToFloat(sums[parts + 2 * i + 1]) * exp(uintBitsToFloat(sums[parts + 2 * i]) - peak);
    sum = workgroup_sum(sum);
  }
  // exp(0) and log(1) may be off in their last bits. A sum below the peak would make a row more probable than its softmax.
  if (lane == 0) sums[softmax] = floatBitsToUint(peak + max(log(sum), 0));
}
