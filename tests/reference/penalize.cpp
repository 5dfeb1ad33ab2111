#include "reference/penalize.h"

#include <cmath>

namespace weft::reference {

std::vector<double> penalize(const std::vector<float>& logits, const std::vector<bool>& seen, double repeat_penalty,
                             double inverse_temperature, double soft_cap, const Additions& additions) {
  std::vector<double> scores(logits.begin(), logits.end());
  for (size_t id = 0; id < scores.size(); ++id) {
    if (soft_cap > 0 && std::isfinite(scores[id])) scores[id] = soft_cap * std::tanh(scores[id] / soft_cap);
    if (seen[id]) scores[id] = scores[id] > 0 ? scores[id] / repeat_penalty : scores[id] * repeat_penalty;
    if (!additions.biases.empty()) scores[id] += additions.biases[id];
    if (!additions.counts.empty() && additions.counts[id] > 0)
      scores[id] -= additions.presence + additions.frequency * additions.counts[id];
    if (inverse_temperature > 0) scores[id] *= inverse_temperature;
  }
  return scores;
}

std::vector<double> penalize(const std::vector<float>& logits, const std::vector<bool>& seen, double repeat_penalty,
                             double inverse_temperature, double soft_cap) {
  return penalize(logits, seen, repeat_penalty, inverse_temperature, soft_cap, {});
}

}  // namespace weft::reference
