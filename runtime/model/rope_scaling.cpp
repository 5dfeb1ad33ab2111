#include "model/rope_scaling.h"

#include <cmath>

namespace weft {

Rope plain_rope(double base, uint32_t rotary_dim) {
  Rope rope;
  for (uint32_t i = 0; i < rotary_dim / 2; ++i) rope.frequencies.push_back(std::pow(base, -2.0 * i / rotary_dim));
  return rope;
}

void scale_linearly(Rope& rope, double factor) {
  for (double& frequency : rope.frequencies) frequency /= factor;
}

void scale_like_llama3(Rope& rope, const Llama3Scaling& s) {
  for (double& frequency : rope.frequencies) {
    const double waves = s.old_context * frequency / (2 * M_PI);  // in the old context
    if (waves >= s.high_factor) continue;
    const double kept = waves <= s.low_factor ? 0 : (waves - s.low_factor) / (s.high_factor - s.low_factor);
    frequency = (1 - kept) * frequency / s.factor + kept * frequency;
  }
}

}  // namespace weft
