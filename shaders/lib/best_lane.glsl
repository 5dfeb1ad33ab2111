// The best candidate of a workgroup's lanes, in two turns of eight rather than one of 64.
#include "lib/better.glsl"

shared Candidate best_of[64];

// Lane i < lanes keeps the best of entries i, i + lanes, ..., eight in all.
void join_best(inout Candidate best, uint lane, uint lanes) {
  barrier();
  if (lane >= lanes) return;
  for (uint i = 1; i < 8; ++i)
    if (better(best_of[lane + i * lanes], best)) best = best_of[lane + i * lanes];
  best_of[lane] = best;
}
// Of the first 64 lanes, in lane 0. Every lane calls it, after a barrier where it was called before.
Candidate best_lane(Candidate best, uint lane) {
  if (lane < 64) best_of[lane] = best;
  join_best(best, lane, 8);
  join_best(best, lane, 1);
  return best;
}
