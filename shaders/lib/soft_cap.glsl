// cap * tanh(value / cap) (Gemma Team 2024, "Gemma 2", section 2). By exp(), because a device's tanh() may make inf / inf of far values.
float soft_capped(float value, float cap) { return cap - 2 * cap / (exp(2 * value / cap) + 1); }

// What soft_capped makes at least `capped` of, or a little less; -3.4e38 where that may be anything. exp() and the quotients put the
// result off by less than 2^-20 of the cap, log() by less than 2^-16.
float before_soft_cap(float capped, float cap) {
  const float t = min(capped / cap - 1.0 / 262144, 1 - 1.0 / 262144);
  return t <= -1 ? -3.4e38 : cap * (0.5 * log((1 + t) / (1 - t)) - 1.0 / 32768);
}
