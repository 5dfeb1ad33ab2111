// The frequencies of rotary positions (Su et al. 2021), and what stretches them for contexts longer than trained on.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

struct Rope {
  std::vector<double> frequencies;  // (rotary_dim / 2) radians a position
};

// base^(-2i / rotary_dim).
Rope plain_rope(double base, uint32_t rotary_dim);

// Positions are divided by the factor (Chen et al. 2023, "Extending context window of large language models via
// position interpolation").
void scale_linearly(Rope& rope, double factor);

// Llama 3.1's: waves longer than old_context / low_factor are divided by the factor, those shorter than old_context /
// high_factor stay, and those between are mixed. All above 0, high_factor above low_factor.
struct Llama3Scaling {
  double factor, low_factor, high_factor, old_context;
};
void scale_like_llama3(Rope& rope, const Llama3Scaling& scaling);

}  // namespace weft
