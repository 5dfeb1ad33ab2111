// The first rows to compute: of each of leader_count strips of positions the one with the greatest estimate.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Choice { uint choice[]; };
layout(std430, binding = 2) buffer Lists { uint lists[]; };
layout(constant_id = 0) const uint LISTED = 0;
layout(push_constant) uniform Push { LeadersPush p; };

shared Candidate best_of[64];

// Grid: a strip a workgroup. Strips interleave, so that neighbours in the vocabulary are in different ones.
void main() {
  const uint strips = state.head.leader_count, strip = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  if (strip >= strips) return;
  Candidate best = Candidate(-3.4e38, NO_ROW);
  for (uint i = strip + lane * strips; i < state.head.positions; i += 64 * strips) {
    const float estimate = uintBitsToFloat(lists[LIST_ESTIMATES(p.rows) + i]);
    if (estimate > best.score) best = Candidate(estimate, i);
  }
  best_of[lane] = best;
  barrier();
  if (lane > 0) return;
  for (uint i = 1; i < 64; ++i)
    if (best_of[i].score > best.score) best = best_of[i];
  lists[LIST_LEADERS(p.rows) + strip] = LISTED != 0 && best.id != NO_ROW ? choice[best.id] : best.id;
}
