// The best few rows of each of several states' logits, best first, and the share of each. sample has left the best row of each group of
// SAMPLE_ROWS. The next one is the best of another group, or the second best of the same group, which is then looked through once more.
// A share is of the mass of the rows of the best row's group and of the other groups' best ones: no less than the softmax, and close to it where
// a few rows have nearly all of the mass. One workgroup a state.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/finite.glsl"
#include "lib/reduce.glsl"
#define BEST_LANES THREADS
#include "lib/best_lane.glsl"

layout(std430, binding = 0) readonly buffer Logits { float logits[]; };       // (states, logit_stride)
layout(std430, binding = 1) coherent buffer Candidates { Candidate candidates[]; };    // (states, stride)
layout(std430, binding = 2) writeonly buffer Guesses { Guess guesses[]; };    // (states, ranks)
layout(push_constant) uniform Push { BestPush p; };

// Every lane gets the best of the lanes' candidates.
Candidate best_of_all(Candidate own, uint lane) {
  best_lane(own, lane);
  barrier();
  own = best_of[0];
  barrier();
  return own;
}

void main() {
  const uint lane = gl_LocalInvocationID.x, first = gl_WorkGroupID.x * p.stride, count = (p.rows + SAMPLE_ROWS - 1) / SAMPLE_ROWS;
  float highest = 0, mass = 0;
  for (uint rank = 0; rank < p.ranks; ++rank) {
    Candidate best = NO_CANDIDATE;
    for (uint i = lane; i < count; i += THREADS)
      if (better(candidates[first + i], best)) best = candidates[first + i];
    best = best_of_all(best, lane);
    const bool there = best.id < p.rows;
    const uint group = there ? best.id / SAMPLE_ROWS : 0;
    if (rank == 0) {
      highest = best.score;
      for (uint i = lane; i < count; i += THREADS) mass += i == group ? 0 : exp(candidates[first + i].score - highest);
    }
    Candidate next = NO_CANDIDATE;
    for (uint row = group * SAMPLE_ROWS + lane; there && row < min((group + 1) * SAMPLE_ROWS, p.rows); row += THREADS) {
      const Candidate one = Candidate(logits[gl_WorkGroupID.x * p.logit_stride + row], row);
      if (!is_finite(one.score)) continue;
      if (rank == 0) mass += exp(one.score - highest);
      if (better(best, one) && better(one, next)) next = one;
    }
    next = best_of_all(next, lane);
    if (rank == 0) mass = workgroup_sum(mass);
    if (lane == 0) {
      guesses[gl_WorkGroupID.x * p.ranks + rank] = Guess(best.id, there ? exp(best.score - highest) / mass : 0);
      if (there) candidates[first + group] = next;
    }
    memoryBarrierBuffer();
    barrier();
  }
}
