// The best score of each SAMPLE_ROWS rows: the greatest (greedy; the lowest id among equals), or, when sampling, the greatest score plus
// Gumbel noise among those between the threshold and the ceiling, which draws exactly from their softmax (Gumbel 1954; Maddison et al. 2014) and needs
// no sums. Noise is a function of seed, position and id alone, so the draw does not depend on how the rows are spread over lanes.
// Optional: lists
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/best_lane.glsl"
#include "lib/finite.glsl"

layout(constant_id = 0) const uint LISTED = 0;
layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Scores { float scores[]; };  // (rows)
layout(std430, binding = 3) writeonly buffer Candidates { Candidate candidates[]; };
layout(std430, binding = 4) readonly buffer Lists { uint lists[]; };
layout(push_constant) uniform Push { SamplePush p; };
#include "lib/gumbel.glsl"

void main() {
  const bool greedy = params.inverse_temperature == 0;
  const uint lane = gl_LocalInvocationID.x;
  const uint count = LISTED != 0 ? state.head.exact_count : p.rows;
  Candidate best = NO_CANDIDATE;
  for (uint start = 0; start < SAMPLE_ROWS; start += 256) {
    const uint first = gl_WorkGroupID.x * SAMPLE_ROWS + start + lane * 4;
    if (first >= count) break;
    uvec4 words = uvec4(0);
    if (!greedy && LISTED == 0) words = noise_words(first / 4, state.end);
    for (uint i = 0; i < 4; ++i) {
      if (first + i >= count) continue;
      const uint id = LISTED != 0 ? lists[LIST_IDS(p.rows) + first + i] : first + i;
      const float score = scores[first + i];
      if (!is_finite(score) || (!greedy && (score < state.threshold || score > state.ceiling))) continue;
      float noise = 0;
      if (!greedy) noise = LISTED != 0 ? noise_of(id, state.end) : gumbel(words[i]);
      const Candidate candidate = Candidate(score + noise, id);
      if (better(candidate, best)) best = candidate;
    }
  }
  best = best_lane(best, lane);
  if (lane == 0) candidates[gl_WorkGroupID.x] = best;
}
