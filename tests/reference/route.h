// The router of a mixture of experts (Jiang et al. 2024, "Mixtral of Experts", section 2.1).
#pragma once

#include "reference/rows.h"

namespace weft::reference {

struct Choice {
  uint32_t expert;
  double weight;
};

// A token's `used` experts, best first, of equals the first. Weights are the softmax over all logits, or with `sigmoid`
// each logit's own; biases (if not empty) are added to these to choose by. normalised: then they are divided by their
// sum, to which sigmoids add 1e-6; so softmax is Softmax(TopK(logits)). All are multiplied by the scale.
struct Router {
  uint32_t used;
  bool sigmoid = false, normalised = true;
  double scale = 1;
};
std::vector<Choice> route(std::span<const double> logits, const Router& router, std::span<const float> biases = {});

}  // namespace weft::reference
