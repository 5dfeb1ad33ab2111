// Log-probabilities of the token that is chosen and of the likeliest ones, by the model alone: of logits before penalties, temperature and
// filters, over all rows or over the listed ones. Each workgroup looks at PART_ROWS rows; the one that finishes last joins what they have found.
// Runs before advance, for the token that advance will append.
// Variants: subgroup
// Optional: lists
#version 450
#extension GL_GOOGLE_include_directive : require
#include "narrowed.h"
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
// Each workgroup has PART_WORDS: the peak, the sum, the logit of the chosen token, then the scores and ids of its likeliest rows.
layout(std430, binding = 6) coherent buffer Scratch {
  Narrowed narrowed;
  uint parts[];
};
layout(push_constant) uniform Push { LogprobsPush p; };

shared uint best_id, arrived;

uint id_at(uint place) { return LISTED != 0 ? lists[LIST_IDS(p.rows) + place] : place; }
float capped(float logit) { return params.soft_cap > 0 ? soft_capped(logit, params.soft_cap) : logit; }
float part(uint group, uint word) { return uintBitsToFloat(parts[group * PART_WORDS + word]); }

// The best of all lanes' candidates, in each of them.
Candidate best_of_all(Candidate own) {
  const float score = workgroup_max(own.score);
  if (gl_LocalInvocationID.x == 0) best_id = NO_ROW;
  barrier();
  if (own.score == score) atomicMin(best_id, own.id);
  barrier();
  const Candidate best = Candidate(score, best_id);
  barrier();  // before it is set again
  return best;
}

Candidate chosen_token() {
  Candidate best = Candidate(-3.4e38, NO_ROW);
  for (uint i = gl_LocalInvocationID.x; i < p.candidates; i += THREADS)
    if (better(candidates[i], best)) best = candidates[i];
  return best_of_all(best);
}

// Leaves what the workgroup's rows [first, end) have, with their `wanted` likeliest.
void look(uint first, uint end, uint wanted) {
  const uint lane = gl_LocalInvocationID.x, at = gl_WorkGroupID.x * PART_WORDS, chosen = chosen_token().id;
  float peak = -3.4e38;
  for (uint i = first + lane; i < end; i += THREADS)
    if (is_finite(logits[i])) peak = max(peak, logits[i]);
  const float top = capped(workgroup_max(peak));
  float sum = 0, of_chosen = -3.4e38;
  for (uint i = first + lane; i < end; i += THREADS) {
    if (!is_finite(logits[i])) continue;
    const float logit = capped(logits[i]);
    sum += exp(logit - top);
    if (id_at(i) == chosen) of_chosen = logit;
  }
  sum = workgroup_sum(sum);
  of_chosen = workgroup_max(of_chosen);
  if (lane == 0) {
    parts[at] = floatBitsToUint(top);
    parts[at + 1] = floatBitsToUint(sum);
    parts[at + 2] = floatBitsToUint(of_chosen);
  }
  Candidate last = Candidate(3.4e38, 0);
  for (uint named = 0; named < wanted; ++named) {  // the best of what comes after the last one
    Candidate best = Candidate(-3.4e38, NO_ROW);
    for (uint i = first + lane; last.id != NO_ROW && i < end; i += THREADS) {
      if (!is_finite(logits[i])) continue;
      const Candidate candidate = Candidate(logits[i], id_at(i));
      if (better(last, candidate) && better(candidate, best)) best = candidate;
    }
    last = best_of_all(best);
    if (lane == 0) {
      parts[at + 3 + 2 * named] = floatBitsToUint(last.score);
      parts[at + 4 + 2 * named] = last.id;
    }
  }
}

// Joins what the workgroups have left.
void join(uint groups, uint wanted) {
  const uint lane = gl_LocalInvocationID.x, slot = state.end % RING;
  float top = -3.4e38, of_chosen = -3.4e38, sum = 0;
  for (uint g = lane; g < groups; g += THREADS) {
    if (part(g, 1) > 0) top = max(top, part(g, 0));
    of_chosen = max(of_chosen, part(g, 2));
  }
  top = workgroup_max(top);
  for (uint g = lane; g < groups; g += THREADS)
    if (part(g, 1) > 0) sum += part(g, 1) * exp(part(g, 0) - top);
  const float whole = top + log(workgroup_sum(sum));
  of_chosen = workgroup_max(of_chosen);
  Candidate last = Candidate(3.4e38, 0);
  uint named = 0;
  for (; named < wanted; ++named) {
    Candidate best = Candidate(-3.4e38, NO_ROW);
    for (uint i = lane; i < groups * wanted; i += THREADS) {
      const uint word = 3 + 2 * (i % wanted), g = i / wanted;
      const Candidate candidate = Candidate(part(g, word), parts[g * PART_WORDS + word + 1]);
      if (candidate.id != NO_ROW && better(last, candidate) && better(candidate, best)) best = candidate;
    }
    last = best_of_all(best);
    if (last.id == NO_ROW) break;
    if (lane > 0) continue;
    ring[slot].ids[named] = last.id;
    ring[slot].logprobs[named] = capped(last.score) - whole;
  }
  if (lane > 0) return;
  ring[slot].chosen = of_chosen - whole;
  ring[slot].count = named;
  narrowed.done = 0;
}

// Grid: PART_ROWS rows a workgroup.
void main() {
  if (state.finished != 0) return;
  const uint count = LISTED != 0 ? state.head.exact_count : p.rows, groups = max((count + PART_ROWS - 1) / PART_ROWS, 1);
  if (gl_WorkGroupID.x >= groups) return;
  const uint wanted = min(min(params.logprobs, uint(MAX_LOGPROBS)), count), first = gl_WorkGroupID.x * PART_ROWS;
  look(first, min(count, first + PART_ROWS), wanted);
  memoryBarrierBuffer();
  if (gl_LocalInvocationID.x == 0) arrived = atomicAdd(narrowed.done, 1);
  barrier();
  if (arrived + 1 != groups) return;
  memoryBarrierBuffer();
  join(groups, wanted);
}
