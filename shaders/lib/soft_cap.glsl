// cap * tanh(value / cap) (Gemma Team 2024, "Gemma 2", section 2). By exp(), because a device's tanh() may make inf / inf of far values.
float soft_capped(float value, float cap) { return cap - 2 * cap / (exp(2 * value / cap) + 1); }

// The least value that soft_capped() maps to at least `capped`, or a little less; -3.4e38 if any value may do. exp() and the quotients change the
// result by less than 2^-20 of the cap, log() by less than 2^-16.
float before_soft_cap(float capped, float cap) {
  const float t = min(capped / cap - 1.0 / 262144, 1 - 1.0 / 262144);
  return t <= -1 ? -3.4e38 : cap * (0.5 * log((1 + t) / (1 - t)) - 1.0 / 32768);
}
