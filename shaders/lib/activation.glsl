// The including shader declares ACTIVATION, a constant.
// 1 - erf(z) for z >= 0, to 1.5e-7 (Abramowitz and Stegun 1964, 7.1.26).
float erfc_of(float z) {
  const float t = 1 / (1 + 0.3275911 * z);
  return t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * exp(-z * z);
}

// SiLU with a steeper sigmoid (Hendrycks and Gimpel 2016, section 2), both inputs within limits: gpt-oss's (OpenAI 2025).
float clamped_gate(float gate, float up) {
  const float v = min(gate, 7);
  return v / (1 + exp(-1.702 * v)) * (clamp(up, -7, 7) + 1);
}

float activated(float v) {
  if (ACTIVATION == ACTIVATION_RELU) return max(v, 0);
  if (ACTIVATION == ACTIVATION_RELU_SQUARED) return max(v, 0) * max(v, 0);  // So et al. 2021, "Primer"
  if (ACTIVATION == ACTIVATION_SILU) return v / (1 + exp(-v));
  if (ACTIVATION == ACTIVATION_TANH) return 1 - 2 / (1 + exp(2 * v));  // 1 where exp() overflows
  if (ACTIVATION == ACTIVATION_GELU_TANH)  // v (1 + tanh(u)) / 2, without a tanh that may overflow
    return v / (1 + exp(-1.5957691216 * (v + 0.044715 * v * v * v)));
  const float tail = 0.5 * erfc_of(abs(v) * 0.70710678);  // GELU (Hendrycks and Gimpel 2016)
  return v * (v < 0 ? tail : 1 - tail);
}

float gated(float gate, float up) { return ACTIVATION == ACTIVATION_CLAMPED ? clamped_gate(gate, up) : activated(gate) * up; }
