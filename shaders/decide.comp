// Checks if the listed rows decide a token that top-p restricts. If they do not, every row is listed next. One workgroup.
//
// `full` draws the row with the greatest score plus noise in the nucleus: the likeliest rows, as many as hold top_p of the mass Z of all rows.
// Let w be the row with the greatest score plus noise of all rows, a the mass of the rows with a higher score than w's, and M <= Z the mass of the
// listed rows.
//   w is listed, because every row is listed that can win by its score and noise (cut).
//   a is known if w's score reaches the floor, because every row is listed whose score does.
//   If a < top_p M, then a < top_p Z: the rows above w do not hold top_p, so w is in the nucleus. It wins among all rows, so it wins in the nucleus.
// `filter` makes the same test with the list that it makes with all rows, a < top_p M, so it and `sample` draw w from the list. If w is outside the
// nucleus, only the mass of the tail can tell which other row wins, and every row is read.
//
// Rounding. filter counts a row's mass in whole units of 2^-26 of the best row's, rounded down: at most the mass, and at least the mass less a unit.
// exp() may be off by 3 + 2 |x| ulp in both shaders (Vulkan's specification, "Precision of individual operations"); rows with at least a unit have
// |x| < 18.1: 2 * 39.2 * 2^-23 < 2^-16. A lane adds at most 2^19 / 64 masses: 2^-24 of the sum each, 2^-11. LOSS is more than all of this. w is not
// known to the last bit either: noise that two shaders compute may differ, so every row within SLACK of the best must pass.
// Variants: subgroup
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/reduce.glsl"
#include "lib/finite.glsl"

layout(std430, binding = 0) buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer TokenFlags { uint token_flags[]; };  // TOKEN_FLAGS
layout(std430, binding = 3) readonly buffer Lists { uint lists[]; };
layout(std430, binding = 4) readonly buffer Logits { float logits[]; };  // of the list
layout(push_constant) uniform Push { DecidePush p; };
#include "lib/gumbel.glsl"
#include "lib/score.glsl"

const float LOSS = 1.0 / 1024, SLACK = 1.0 / 1048576, UNIT = 1.0 / 67108864;

uint id_at(uint place) { return lists[LIST_IDS(p.rows) + place]; }
float score_at(uint place) { return score_of(logits[place], id_at(place), p.rows); }

// The lowest score of a row that may be the winner, of those that reach `least`.
float winner(uint count, float least) {
  float best = -3.4e38, lowest = 3.4e38;
  for (uint i = gl_LocalInvocationID.x; i < count; i += THREADS) {
    const float score = score_at(i);
    if (is_finite(score) && score >= least) best = max(best, score + noise_of(id_at(i), state.end));
  }
  best = workgroup_max(best);
  const float limit = best - (abs(best) + 64) * SLACK;
  for (uint i = gl_LocalInvocationID.x; i < count; i += THREADS) {
    const float score = score_at(i);
    if (is_finite(score) && score >= least && score + noise_of(id_at(i), state.end) >= limit) lowest = min(lowest, score);
  }
  return -workgroup_max(-lowest);
}

bool in_nucleus(float score, uint count, float peak) {
  float above = 0, all_ = 0;
  for (uint i = gl_LocalInvocationID.x; i < count; i += THREADS) {
    const float other = score_at(i);
    if (!is_finite(other)) continue;
    const float mass = exp(other - peak);
    all_ += max(mass - UNIT, 0);
    if (other > score) above += mass;
  }
  above = workgroup_sum(above);
  all_ = workgroup_sum(all_);
  return above * (1 + LOSS) < params.top_p * all_ * (1 - LOSS);
}

void main() {
  if (state.head.mode == HEAD_ALL || params.cut_mass == 0) {
    if (gl_LocalInvocationID.x == 0) state.head.exact.x = 0;
    return;
  }
  const uint count = state.head.exact_count;
  float peak = -3.4e38;
  for (uint i = gl_LocalInvocationID.x; i < count; i += THREADS) {
    const float score = score_at(i);
    if (is_finite(score)) peak = max(peak, score);
  }
  peak = workgroup_max(peak);
  // If noise has not been asked what can win, all rows are listed that min-p lets through, and those alone are asked here.
  const float least = peak + params.log_min_p, score = winner(count, params.cut_noise != 0 ? -3.4e38 : least);
  const bool decided = score < 3.3e38 && score >= max(state.head.floor, least) && in_nucleus(score, count, peak);
  if (gl_LocalInvocationID.x > 0) return;
  state.head.exact.x = 0;  // what was listed is computed
  state.head.undecided += ((decided ? 0.0 : 1.0) - state.head.undecided) / 16;
  if (decided) return;
  state.head.every = 1;
  state.head.first_count = count;
  state.head.exact_count = 0;
}
