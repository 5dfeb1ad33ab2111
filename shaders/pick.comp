// The best score of each PICK_ROWS rows: the greatest (greedy; the lowest id among equals), or, when sampling, the greatest score plus
// Gumbel noise among those that reach the threshold, which draws exactly from their softmax (Gumbel 1954; Maddison et al. 2014) and needs
// no sums. Noise is a function of seed, position and id alone, so the draw does not depend on how the rows are spread over lanes.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/philox.glsl"
#include "lib/finite.glsl"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Scores { float scores[]; };  // (rows)
layout(std430, binding = 3) writeonly buffer Candidates { Candidate candidates[]; };
layout(push_constant) uniform Push { PickPush p; };

shared Candidate best_of[64];

// -ln(-ln(1 - v)) for v in the middle of one of 2^32 steps of (0, 1). The greatest noise decides, so it is small v that must be
// right: there ln(1 - v) is summed as a series, because Vulkan lets log() of a number near 1 be off by 2^-21, or give 0.
float gumbel(uint word) {
  const float v = (float(word) + 0.5) * (1.0 / 4294967296.0), rest = (float(~word) + 0.5) * (1.0 / 4294967296.0);
  const float waiting = v < 1.0 / 32 ? v * (1 + v * (1.0 / 2 + v * (1.0 / 3 + v * (1.0 / 4)))) : -log(rest);
  return -log(waiting);
}

bool better(Candidate a, Candidate b) { return a.score > b.score || (a.score == b.score && a.id < b.id); }

void main() {
  const bool greedy = params.inverse_temperature == 0;
  const uint lane = gl_LocalInvocationID.x;
  Candidate best = Candidate(-3.4e38, 0xffffffffu);
  for (uint start = 0; start < PICK_ROWS; start += 256) {
    const uint first = gl_WorkGroupID.x * PICK_ROWS + start + lane * 4;
    vec4 noise = vec4(0);
    if (!greedy) {
      const uvec4 words = philox(uvec4(first / 4, state.end, 0, 0), uvec2(params.seed_low, params.seed_high));
      noise = vec4(gumbel(words.x), gumbel(words.y), gumbel(words.z), gumbel(words.w));
    }
    for (uint i = 0; i < 4; ++i) {
      const uint id = first + i;
      if (id >= p.rows) continue;
      const float score = scores[id];
      if (!is_finite(score) || (!greedy && score < state.threshold)) continue;
      const Candidate candidate = Candidate(score + noise[i], id);
      if (better(candidate, best)) best = candidate;
    }
  }
  best_of[lane] = best;
  barrier();
  if (lane > 0) return;
  for (uint i = 1; i < 64; ++i)
    if (better(best_of[i], best)) best = best_of[i];
  candidates[gl_WorkGroupID.x] = best;
}
