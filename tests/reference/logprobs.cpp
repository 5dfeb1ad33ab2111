#include "reference/logprobs.h"

#include <algorithm>
#include <cmath>

namespace weft::reference {

std::vector<std::pair<uint32_t, double>> logprobs(const std::vector<float>& logits, double soft_cap) {
  std::vector<std::pair<uint32_t, double>> ranked;
  for (uint32_t id = 0; id < logits.size(); ++id)
    if (std::isfinite(logits[id])) ranked.emplace_back(id, logits[id]);
  std::ranges::stable_sort(ranked, [](const auto& a, const auto& b) { return a.second > b.second; });
  double sum = 0;
  for (auto& [id, value] : ranked) {
    if (soft_cap > 0) value = soft_cap * std::tanh(value / soft_cap);
    sum += std::exp(value - ranked[0].second);
  }
  const double whole = ranked.empty() ? 0 : ranked[0].second + std::log(sum);
  for (auto& [id, value] : ranked) value -= whole;
  return ranked;
}

}  // namespace weft::reference
