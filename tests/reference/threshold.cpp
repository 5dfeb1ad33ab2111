#include "reference/threshold.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace weft::reference {
namespace {

// Scores of the fewest best that hold top_p of the softmax over `sorted` (best first).
size_t nucleus(const std::vector<double>& sorted, double top_p, double& margin) {
  double total = 0;
  for (const double score : sorted) total += std::exp(score - sorted[0]);
  double share = 0;
  for (size_t count = 0; count < sorted.size();) {
    // Equal scores come in together.
    const size_t first = count;
    while (count < sorted.size() && sorted[count] == sorted[first])
      share += std::exp(sorted[count++] - sorted[0]) / total;
    margin = std::min(margin, std::abs(share - top_p) / top_p);
    if (share >= top_p) return count;
  }
  return sorted.size();
}

}  // namespace

Allowed threshold(const std::vector<float>& scores, const Filters& filters) {
  std::vector<double> sorted;
  for (const float score : scores)
    if (std::isfinite(score)) sorted.push_back(score);
  std::ranges::sort(sorted, std::greater());
  Allowed allowed = {std::vector<bool>(scores.size()), 1};
  if (sorted.empty()) return allowed;
  const double peak = sorted[0];
  if (filters.top_k > 0 && filters.top_k < sorted.size()) {
    size_t count = filters.top_k;
    while (count < sorted.size() && sorted[count] == sorted[filters.top_k - 1]) ++count;
    sorted.resize(count);
  }
  if (filters.top_p < 1) sorted.resize(nucleus(sorted, filters.top_p, allowed.margin));
  double lowest = sorted.back();
  if (filters.min_p > 0) {
    const double line = peak + std::log(filters.min_p);
    for (const double score : sorted) allowed.margin = std::min(allowed.margin, std::abs(score - line));
    lowest = std::max(lowest, line);
  }
  for (size_t id = 0; id < scores.size(); ++id) allowed.ids[id] = std::isfinite(scores[id]) && scores[id] >= lowest;
  return allowed;
}

}  // namespace weft::reference
