#include "reference/nll.h"

#include <algorithm>
#include <cmath>

namespace weft::reference {

double nll(std::span<const float> logits, uint32_t target) {
  const double peak = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - peak);
  return std::log(sum) + peak - logits[target];
}

}  // namespace weft::reference
