// Log-probabilities of the token that is chosen and of the likeliest ones, by the model alone: of logits before penalties, temperature and
// filters, over all rows or over the listed ones. One workgroup; runs before advance, for the token that advance will append.
// Variants: subgroup
// Optional: lists
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"
#include "lib/better.glsl"
#include "lib/reduce.glsl"
#include "lib/finite.glsl"
#include "lib/soft_cap.glsl"

layout(constant_id = 1) const uint LISTED = 0;
layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Params { SampleParams params; };
layout(std430, binding = 2) readonly buffer Logits { float logits[]; };  // (rows)
layout(std430, binding = 3) readonly buffer Candidates { Candidate candidates[]; };
layout(std430, binding = 4) readonly buffer Lists { uint lists[]; };
layout(std430, binding = 5) writeonly buffer Ring { TokenLogprobs ring[]; };  // (RING)
layout(push_constant) uniform Push { LogprobsPush p; };

shared uint best_id;

uint id_at(uint place) { return LISTED != 0 ? lists[LIST_IDS(p.rows) + place] : place; }

void main() {
  if (state.finished != 0) return;
  const uint lane = gl_LocalInvocationID.x, count = LISTED != 0 ? state.head.exact_count : p.rows;
  float peak = -3.4e38;
  for (uint i = lane; i < count; i += THREADS)
    if (is_finite(logits[i])) peak = max(peak, logits[i]);
  peak = workgroup_max(peak);
  const float top = params.soft_cap > 0 ? soft_capped(peak, params.soft_cap) : peak;
  Candidate chosen = Candidate(-3.4e38, NO_ROW);
  for (uint i = 0; i < p.candidates; ++i)
    if (better(candidates[i], chosen)) chosen = candidates[i];
  float sum = 0, of_chosen = -3.4e38;
  for (uint i = lane; i < count; i += THREADS) {
    if (!is_finite(logits[i])) continue;
    const float logit = params.soft_cap > 0 ? soft_capped(logits[i], params.soft_cap) : logits[i];
    sum += exp(logit - top);
    if (id_at(i) == chosen.id) of_chosen = logit;
  }
  const float whole = top + log(workgroup_sum(sum));
  of_chosen = workgroup_max(of_chosen);
  const uint slot = state.end % RING, wanted = min(min(params.logprobs, uint(MAX_LOGPROBS)), count);
  Candidate last = Candidate(3.4e38, 0);
  uint named = 0;
  for (; named < wanted; ++named) {  // the best of what comes after the last one
    Candidate best = Candidate(-3.4e38, NO_ROW);
    for (uint i = lane; i < count; i += THREADS) {
      if (!is_finite(logits[i])) continue;
      const Candidate candidate = Candidate(logits[i], id_at(i));
      if (better(last, candidate) && better(candidate, best)) best = candidate;
    }
    const float score = workgroup_max(best.score);
    if (lane == 0) best_id = NO_ROW;
    barrier();
    if (best.score == score) atomicMin(best_id, best.id);
    barrier();
    last = Candidate(score, best_id);
    barrier();  // before it is set again
    if (last.id == NO_ROW) break;
    if (lane > 0) continue;
    ring[slot].ids[named] = last.id;
    ring[slot].logprobs[named] = (params.soft_cap > 0 ? soft_capped(last.score, params.soft_cap) : last.score) - whole;
  }
  if (lane > 0) return;
  ring[slot].chosen = of_chosen - whole;
  ring[slot].count = named;
}
