#include "reference/attend.h"

#include <algorithm>
#include <cmath>

namespace weft::reference {

std::vector<double> alibi_slopes(uint32_t heads) {
  const auto sequence = [](uint32_t n) {
    std::vector<double> slopes;
    for (uint32_t i = 1; i <= n; ++i) slopes.push_back(std::pow(std::exp2(-8.0 / n), i));
    return slopes;
  };
  uint32_t lower = 1;
  while (lower * 2 <= heads) lower *= 2;
  std::vector<double> slopes = sequence(lower);
  const std::vector<double> twice = sequence(2 * lower);
  for (uint32_t i = 0; slopes.size() < heads; i += 2) slopes.push_back(twice[i]);
  return slopes;
}

Attention attend(std::span<const double> q, const Rows& keys, const Rows& values, uint32_t heads, uint32_t kv_heads,
                 uint32_t positions, double scale, uint32_t window, double soft_cap, bool alibi,
                 std::span<const float> biases, int own, std::span<const float> sinks) {
  const std::vector<double> slopes = alibi_slopes(heads);
  const int reach = (static_cast<int>(biases.size() / heads) - 1) / 2;
  const size_t head_dim = q.size() / heads;
  Attention result = {std::vector<double>(q.size()), std::vector<double>(q.size()), 0};
  std::vector<double> weights(positions);
  for (uint32_t head = 0; head < heads; ++head) {
    const size_t from = head / (heads / kv_heads) * head_dim;
    for (uint32_t p = 0; p < positions; ++p) {
      double score = 0, magnitude = 0;
      for (size_t d = 0; d < head_dim; ++d) {
        const double product = q[head * head_dim + d] * keys.row(p)[from + d] * scale;
        score += product;
        magnitude += std::abs(product);
      }
      weights[p] = soft_cap > 0 ? soft_cap * std::tanh(score / soft_cap) : score;
      if (alibi) weights[p] -= slopes[head] * (positions - 1 - p);
      const int distance = std::clamp(static_cast<int>(p) - own, -reach, reach);
      if (!biases.empty()) weights[p] += biases[head * (biases.size() / heads) + static_cast<size_t>(distance + reach)];
      const uint32_t last = own < 0 ? positions - 1 : static_cast<uint32_t>(own);
      if (window > 0 && (p + window <= last || p >= last + window)) weights[p] = -INFINITY;
      result.score_magnitude = std::max(result.score_magnitude, magnitude);
    }
    double peak = *std::ranges::max_element(weights);
    if (!sinks.empty()) peak = std::max(peak, double{sinks[head]});
    double total = sinks.empty() ? 0 : std::exp(sinks[head] - peak);
    for (double& weight : weights) total += weight = std::exp(weight - peak);
    for (uint32_t p = 0; p < positions; ++p)
      for (size_t d = 0; d < head_dim; ++d) {
        const double part = weights[p] / total * values.row(p)[from + d];
        result.y[head * head_dim + d] += part;
        result.magnitude[head * head_dim + d] += std::abs(part);
      }
  }
  return result;
}

}  // namespace weft::reference
