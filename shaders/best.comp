// The best of the candidates that a projection has left for each of several states, and how far it stands out: 1 / sum exp(score - best
// score) over the candidates. Each of them is the best row of a workgroup's, so that is no less than the softmax of the best row, and
// close to it where a few rows have nearly all of the mass. One workgroup a state.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"
#define BEST_LANES THREADS
#include "lib/best_lane.glsl"

layout(std430, binding = 0) readonly buffer Candidates { Candidate candidates[]; };  // (states, stride)
layout(std430, binding = 1) writeonly buffer Guesses { Guess guesses[]; };           // (states)
layout(push_constant) uniform Push { BestPush p; };

void main() {
  const uint lane = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * p.stride;
  Candidate best = NO_CANDIDATE;
  for (uint i = lane; i < p.count; i += THREADS)
    if (better(candidates[first + i], best)) best = candidates[first + i];
  best_lane(best, lane);
  barrier();
  best = best_of[0];
  float sum = 0;
  for (uint i = lane; i < p.count; i += THREADS) sum += exp(candidates[first + i].score - best.score);
  sum = workgroup_sum(sum);
  if (lane == 0) guesses[gl_WorkGroupID.x] = Guess(best.id, best.id == NO_CANDIDATE.id ? 0 : 1 / sum);
}
