// A token's experts: those of the highest logits, and the softmax over these alone (Jiang et al. 2024, "Mixtral of Experts").
#version 450
#extension GL_GOOGLE_include_directive : require
#include "abi.h"

layout(local_size_x = 64) in;

layout(std430, binding = 0) readonly buffer State { StepState state; };
layout(std430, binding = 1) readonly buffer Logits { float logits[]; };  // (pass tokens, in_stride)
layout(std430, binding = 2) buffer Chosen { RoutedExpert chosen[]; };          // (pass tokens, used), best first
layout(push_constant) uniform Push { RoutePush p; };

// Grid: x covers the tokens, a lane each: experts are few.
void main() {
  const uint token = gl_GlobalInvocationID.x;
  if (token >= p.tokens || (token > 0 && state.pos + token >= state.end)) return;
  const uint row = token * p.in_stride, out_row = token * p.used;
  float peak = 0, last = 0, total = 0;
  uint last_expert = 0;
  for (uint rank = 0; rank < p.used; ++rank) {
    // The best of those after the last one chosen; of equals the first. Logits that are no numbers choose by rank.
    uint best = rank;
    float best_logit = 0;
    bool found = false;
    for (uint expert = 0; expert < p.experts; ++expert) {
      const float logit = logits[row + expert];
      const bool left = rank == 0 || logit < last || (logit == last && expert > last_expert);
      if (left && (!found || logit > best_logit)) {
        found = true;
        best = expert;
        best_logit = logit;
      }
    }
    if (!found) best_logit = last;
    if (rank == 0) peak = best_logit;
    last = best_logit;
    last_expert = best;
    const float weight = exp(best_logit - peak);
    total += weight;
    chosen[out_row + rank] = RoutedExpert(best, weight);
  }
  for (uint rank = 0; rank < p.used; ++rank) chosen[out_row + rank].weight /= total;
}
