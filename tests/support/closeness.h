// How near logits, or other values, are to a reference's.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace weft::test {

// The largest difference, in units of the wanted values' spread.
inline double distance(const std::vector<double>& want, const std::vector<float>& got) {
  double mean = 0, square = 0, worst = 0;
  for (const double value : want) mean += value / static_cast<double>(want.size());
  for (const double value : want) square += (value - mean) * (value - mean) / static_cast<double>(want.size());
  for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
  return got.size() == want.size() ? worst / std::sqrt(square) : INFINITY;
}

// Kullback and Leibler's divergence of the second softmax from the first, in nats.
inline double divergence(const std::vector<double>& want, const std::vector<float>& got) {
  double p_sum = 0, q_sum = 0, sum = 0;
  for (const double logit : want) p_sum += std::exp(logit);
  for (const float logit : got) q_sum += std::exp(double{logit});
  for (size_t i = 0; i < want.size(); ++i)
    sum += std::exp(want[i]) / p_sum * (want[i] - std::log(p_sum) - double{got[i]} + std::log(q_sum));
  return sum;
}

}  // namespace weft::test
