// Score of a token, by which one is chosen, from its logit: the model's soft-cap; the repetition penalty of CTRL (Keskar et al. 2019, section 4.1);
// the token's bias, less the presence penalty if it was generated and the frequency penalty for each time (OpenAI's API reference,
// "create completion"); then the temperature. Needs `params`, and TOKEN_FLAGS as `token_flags`. Monotone in the logit, because the certificate relies
// on it, and precise: every shader gets the same bits.
#include "lib/soft_cap.glsl"

bool was_seen(uint id) { return (token_flags[id / 32] >> (id % 32) & 1) != 0; }

// Sum of the bias and the penalties that are added to a token's logit.
float added_to(uint id, uint rows) {
  precise float added = 0;
  if (params.biased != 0) added = uintBitsToFloat(token_flags[TOKEN_FLAG_BIASES(rows) + id]);
  if (params.presence_penalty != 0 || params.frequency_penalty != 0) {
    const uint count = token_flags[TOKEN_FLAG_COUNTS(rows) + id];
    if (count > 0) {
      precise float penalty = params.frequency_penalty * float(count);
      penalty += params.presence_penalty;
      added -= penalty;
    }
  }
  return added;
}

float score_of(float logit, uint id, uint rows) {
  // Logits that are not finite stay so.
  if (params.soft_cap > 0 && abs(logit) < 3.4e38) logit = soft_capped(logit, params.soft_cap);
  precise float score = logit;
  if (was_seen(id)) score = score > 0 ? score / params.repeat_penalty : score * params.repeat_penalty;
  score += added_to(id, rows);
  if (params.inverse_temperature > 0) score *= params.inverse_temperature;
  return score;
}
