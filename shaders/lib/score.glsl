// What a token's logit counts when one is chosen: the repetition penalty of CTRL (Keskar et al. 2019, section 4.1), then the temperature.
// Needs `params`. Monotone in the logit, which the certificate relies on.
float score_of(float logit, bool seen) {
  if (seen) logit = logit > 0 ? logit / params.repeat_penalty : logit * params.repeat_penalty;
  return params.inverse_temperature > 0 ? logit * params.inverse_temperature : logit;
}
