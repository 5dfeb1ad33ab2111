// Log-probabilities as a model states them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace weft::reference {

// ln softmax(logits) of every id, the likeliest first and the lowest id among equals; logits that are not finite have
// no part in it. soft_cap: of the logits; 0: none.
std::vector<std::pair<uint32_t, double>> logprobs(const std::vector<float>& logits, double soft_cap);

}  // namespace weft::reference
