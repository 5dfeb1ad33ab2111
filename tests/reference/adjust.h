// Scores from logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::reference {

// The repetition penalty of CTRL (Keskar et al. 2019, section 4.1; negative logits are multiplied, as everyone does
// since) on tokens that were seen, then the temperature; at temperature 0 (greedy) the logits stay unscaled.
std::vector<double> adjust(const std::vector<float>& logits, const std::vector<bool>& seen, double repeat_penalty,
                           double inverse_temperature, double soft_cap = 0);

}  // namespace weft::reference
