// What a token's logit counts when one is chosen: the model's soft-cap, the repetition penalty of CTRL (Keskar et al. 2019, section 4.1),
// then the temperature. Needs `params`. Monotone in the logit, which the certificate relies on.
#include "lib/soft_cap.glsl"

float score_of(float logit, bool seen) {
  // What is not finite stays so.
  if (params.soft_cap > 0 && abs(logit) < 3.4e38) logit = soft_capped(logit, params.soft_cap);
  if (seen) logit = logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
  return params.inverse_temperature > 0 ? logit * params.inverse_temperature : logit;
}
