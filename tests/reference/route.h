// The router of a mixture of experts (Jiang et al. 2024, "Mixtral of Experts", section 2.1).
#pragma once

#include "reference/rows.h"

namespace weft::reference {

struct Choice {
  uint32_t expert;
  double weight;
};

// Softmax(TopK(logits)) of a token: its `used` experts, best first, of equals the first; weights sum to 1.
std::vector<Choice> route(std::span<const double> logits, uint32_t used);

}  // namespace weft::reference
