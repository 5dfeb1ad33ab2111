// Scores from logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::reference {

// The repetition penalty of CTRL (Keskar et al. 2019, section 4.1; negative logits are multiplied, as everyone does
// since) on tokens that were seen, then the temperature; at temperature 0 (greedy) the logits stay unscaled.
std::vector<double> penalize(const std::vector<float>& logits, const std::vector<bool>& seen, double repeat_penalty,
                             double inverse_temperature, double soft_cap = 0);

// Additions to logits before the temperature: a bias, less `presence` for a token that was generated and
// `frequency` for each time it was (OpenAI's API reference, "create completion").
struct Additions {
  std::vector<float> biases;     // empty: none
  std::vector<uint32_t> counts;  // empty: nothing was generated
  double presence = 0, frequency = 0;
};
std::vector<double> penalize(const std::vector<float>& logits, const std::vector<bool>& seen, double repeat_penalty,
                             double inverse_temperature, double soft_cap, const Additions& additions);

}  // namespace weft::reference
