// Negative log-likelihood, in nats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::reference {

// -ln softmax(logits)[target]
double nll(std::span<const float> logits, uint32_t target);

}  // namespace weft::reference
