// A token's experts: those of the highest scores, and what their results are multiplied by. Scores are the logits (Jiang et al. 2024, "Mixtral
// of Experts"), or their sigmoids with a bias that only chooses (DeepSeek-AI 2024, "DeepSeek-V3", section 2.1.2).
// Variants: subgroup
// Optional: biases
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(constant_id = 1) const uint SIGMOID = 0;  // 1: weights are sigmoids of the logits, else their softmax
layout(constant_id = 2) const uint BIASED = 0;
#include "lib/reduce.glsl"

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Logits { float logits[]; };  // (pass tokens, in_stride)
layout(std430, binding = 2) buffer Chosen { RoutedExpert chosen[]; };    // (pass tokens, used), best first
layout(std430, binding = 3) readonly buffer Biases { float biases[]; };  // (experts), of the scores
layout(push_constant) uniform Push { RoutePush p; };

const float LEAST = -3.4e38;      // in place of logits that are no numbers, which come last
const float NO_EXPERT = -3.41e38;  // the score of experts that are chosen already
shared float scores[MOST_EXPERTS];
shared uint best_expert;

float sigmoid(float v) { return 1 / (1 + exp(-v)); }
// Not a number, or infinite.
bool odd(float v) { return !(abs(v) <= 3.4e38); }

// Grid: x the tokens; a workgroup each.
void main() {
  const uint token = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
  if (token > 0 && state.pos + token >= state.end) return;
  const uint row = token * p.in_stride, out_row = token * p.used;
  float own_peak = LEAST;
  for (uint expert = lane; expert < p.experts; expert += THREADS) {
    const float logit = logits[row + expert];
    float score = SIGMOID != 0 ? sigmoid(logit) : logit;
    if (BIASED != 0) score += biases[expert];
    if (odd(score)) score = LEAST;
    scores[expert] = score;
    own_peak = max(own_peak, odd(logit) ? LEAST : logit);
  }
  const float peak = workgroup_max(own_peak);
  float total = 0;
  if (SIGMOID == 0 && p.normalised == 0) {  // the softmax is over all experts
    for (uint expert = lane; expert < p.experts; expert += THREADS) total += exp(logits[row + expert] - peak);
    total = workgroup_sum(total);
  }
  for (uint rank = 0; rank < p.used; ++rank) {
    float best = NO_EXPERT;
    for (uint expert = lane; expert < p.experts; expert += THREADS) best = max(best, scores[expert]);
    best = workgroup_max(best);
    if (lane == 0) best_expert = p.experts;
    barrier();
    for (uint expert = lane; expert < p.experts; expert += THREADS)
      if (scores[expert] == best) {
        atomicMin(best_expert, expert);  // of equals the first
        break;
      }
    barrier();
    const uint expert = min(best_expert, p.experts - 1);
    const float logit = logits[row + expert], weight = SIGMOID != 0 ? sigmoid(logit) : exp(logit - peak);
    if (p.normalised != 0) total += weight;
    if (lane == 0) chosen[out_row + rank] = RoutedExpert(expert, weight);
    if (expert % THREADS == lane) scores[expert] = NO_EXPERT;
    barrier();
  }
  if (lane > 0) return;
  const float divisor = SIGMOID == 0 ? total : p.normalised != 0 ? total + 1e-6 : 1;
  for (uint rank = 0; rank < p.used; ++rank) chosen[out_row + rank].weight *= p.scale / divisor;
}
