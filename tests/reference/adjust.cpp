#include "reference/adjust.h"

namespace weft::reference {

std::vector<double> adjust(const std::vector<float>& logits, const std::vector<bool>& seen, double repeat_penalty,
                           double inverse_temperature) {
  std::vector<double> scores(logits.begin(), logits.end());
  for (size_t id = 0; id < scores.size(); ++id) {
    if (seen[id]) scores[id] = scores[id] > 0 ? scores[id] / repeat_penalty : scores[id] * repeat_penalty;
    if (inverse_temperature > 0) scores[id] *= inverse_temperature;
  }
  return scores;
}

}  // namespace weft::reference
