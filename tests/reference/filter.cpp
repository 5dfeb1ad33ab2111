#include "reference/filter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

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

// The scores of `left` that are typical of it.
std::vector<double> typical(const std::vector<double>& left, double typical_p, double& margin) {
  double total = 0, entropy = 0;
  for (const double score : left) total += std::exp(score - left[0]);
  const double whole = left[0] + std::log(total);
  for (const double score : left) entropy -= std::exp(score - whole) * (score - whole);
  std::vector<std::pair<double, double>> nearest;  // distance of the surprise from the entropy, and the score
  for (const double score : left) nearest.emplace_back(std::abs(whole - score - entropy), score);
  std::ranges::sort(nearest);
  double share = 0;
  std::vector<double> kept;
  for (const auto& [distance, score] : nearest) {
    // Scores that are as far come in together.
    if (!kept.empty() && share >= typical_p && kept.back() != score) {
      margin = std::min(margin, distance - std::abs(whole - kept.back() - entropy));
      break;
    }
    if (kept.empty() || kept.back() != score) margin = std::min(margin, std::abs(share - typical_p) / typical_p);
    share += std::exp(score - whole);
    kept.push_back(score);
  }
  margin = std::min(margin, std::abs(share - typical_p) / typical_p);
  return kept;
}

}  // namespace

Allowed filter(const std::vector<float>& scores, const Filters& filters) {
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
  double highest = peak;
  if (filters.typical_p < 1) {
    std::erase_if(sorted, [&](double score) { return score < lowest; });
    const std::vector<double> kept = typical(sorted, filters.typical_p, allowed.margin);
    lowest = std::ranges::min(kept);
    highest = std::ranges::max(kept);
  }
  for (size_t id = 0; id < scores.size(); ++id)
    allowed.ids[id] = std::isfinite(scores[id]) && scores[id] >= lowest && scores[id] <= highest;
  return allowed;
}

}  // namespace weft::reference
