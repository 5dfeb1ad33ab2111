// The best candidate of a workgroup's first BEST_LANES lanes (64 if the including shader does not say so), in turns of eight.
#include "lib/better.glsl"

#ifndef BEST_LANES
#define BEST_LANES 64
#define BEST_LANES_ARE_64
#endif
shared Candidate best_of[BEST_LANES];

// Lane i < lanes keeps the best of entries i, i + lanes, ..., as many as `each`.
void join_best(inout Candidate best, uint lane, uint lanes, uint each) {
  barrier();
  if (lane >= lanes) return;
  for (uint i = 1; i < each; ++i)
    if (better(best_of[lane + i * lanes], best)) best = best_of[lane + i * lanes];
  best_of[lane] = best;
}
// Returns the best candidate of these lanes in lane 0. Every lane must call it; a second call needs a barrier before it.
Candidate best_lane(Candidate best, uint lane) {
  if (lane < BEST_LANES) best_of[lane] = best;
#ifdef BEST_LANES_ARE_64  // no loop: a compiler that keeps it also keeps project's loop over tokens, and its sums go to memory
  join_best(best, lane, 8, 8);
  join_best(best, lane, 1, 8);
#else
  for (uint lanes = BEST_LANES; lanes > 1;) {
    const uint each = min(lanes, 8);
    lanes /= each;
    join_best(best, lane, lanes, each);
  }
#endif
  return best;
}
