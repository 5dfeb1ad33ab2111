#include "model/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weft {

std::vector<double> Rope::frequencies_for(uint32_t context) const {
  if (context <= old_context) return frequencies;
  if (!long_frequencies.empty()) return long_frequencies;
  if (growth == 0) return frequencies;
  const double d = 2.0 * static_cast<double>(frequencies.size()), length = static_cast<double>(context) / old_context;
  return plain_rope(base * std::pow(growth * length - growth + 1, d / (d - 2)), static_cast<uint32_t>(d)).frequencies;
}

// In double: fp32 would lose the angle at large positions.
std::vector<float> Rope::rows(uint32_t context, std::span<const RopePosition> positions) const {
  const std::vector<double> own = frequencies_for(context);
  std::vector<float> values;
  values.reserve(positions.size() * own.size() * 2);
  for (const RopePosition& position : positions)
    for (size_t i = 0; i < own.size(); ++i) {
      const double angle = position[axes.empty() ? 0 : axes[i]] * own[i];
      values.push_back(static_cast<float>(magnitude * std::cos(angle)));
      values.push_back(static_cast<float>(magnitude * std::sin(angle)));
    }
  return values;
}

double Rope::reach() const {
  if (scaling == Scaling::yarn) return factor * yarn.old_context;
  return scaling == Scaling::dynamic ? growth * old_context : 0;
}

Rope plain_rope(double base, uint32_t rotary_dim) {
  Rope rope;
  rope.base = base;
  for (uint32_t i = 0; i < rotary_dim / 2; ++i) rope.frequencies.push_back(std::pow(base, -2.0 * i / rotary_dim));
  return rope;
}

std::vector<uint8_t> interleaved_axes(const RopePosition& sections, size_t pairs) {
  std::vector<uint8_t> axes(pairs);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i / 3 < sections[i % 3] ? static_cast<uint8_t>(i % 3) : 0;
  return axes;
}

void scale_proportionally(Rope& rope, double share) {
  rope.scaling = Rope::Scaling::proportional;
  const auto turning = static_cast<std::ptrdiff_t>(share * static_cast<double>(rope.frequencies.size()));
  std::fill(rope.frequencies.begin() + turning, rope.frequencies.end(), 0);
}

void scale_linearly(Rope& rope, double factor) {
  rope.scaling = Rope::Scaling::linear;
  rope.factor = factor;
  for (double& frequency : rope.frequencies) frequency /= factor;
}

void scale_like_llama3(Rope& rope, const Llama3Scaling& s) {
  rope.scaling = Rope::Scaling::llama3;
  for (double& frequency : rope.frequencies) {
    const double waves = s.old_context * frequency / (2 * M_PI);  // in the old context
    if (waves >= s.high_factor) continue;
    const double kept = waves <= s.low_factor ? 0 : (waves - s.low_factor) / (s.high_factor - s.low_factor);
    frequency = (1 - kept) * frequency / s.factor + kept * frequency;
  }
}

void scale_like_yarn(Rope& rope, double factor, const YarnScaling& s) {
  rope.scaling = Rope::Scaling::yarn;
  rope.factor = factor;
  rope.yarn = s;
  const double d = 2.0 * static_cast<double>(rope.frequencies.size());
  // The dimension with `rotations` rotations in the old context.
  const auto dimension = [&](double rotations) {
    return d * std::log(s.old_context / (rotations * 2 * M_PI)) / (2 * std::log(rope.base));
  };
  double first = dimension(s.fast), last = dimension(s.slow);
  if (s.whole) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0);
  last = std::min(last, d - 1);
  if (first == last) last += 0.001;
  for (size_t i = 0; i < rope.frequencies.size(); ++i) {
    const double kept = 1 - std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    rope.frequencies[i] *= kept + (1 - kept) / factor;
  }
}

double yarn_magnitude(double factor, double k) { return factor <= 1 ? 1 : 1 + 0.1 * k * std::log(factor); }

void scale_like_longrope(Rope& rope, const std::vector<double>& short_factors, const std::vector<double>& long_factors,
                         uint32_t old_context) {
  rope.scaling = Rope::Scaling::longrope;
  rope.old_context = old_context;
  rope.long_frequencies = rope.frequencies;
  for (size_t i = 0; i < rope.frequencies.size(); ++i) {
    rope.frequencies[i] /= short_factors[i];
    rope.long_frequencies[i] /= long_factors[i];
  }
}

void scale_dynamically(Rope& rope, double factor, uint32_t old_context) {
  rope.scaling = Rope::Scaling::dynamic;
  rope.growth = factor;
  rope.old_context = old_context;
}

}  // namespace weft
