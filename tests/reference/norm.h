// RMSNorm (Zhang and Sennrich 2019, "Root Mean Square Layer Normalization").
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// y[t] = x[t] / sqrt(mean(x[t]^2) + epsilon) * weight
Rows norm(const Rows& x, std::span<const double> weight, double epsilon);

// LayerNorm (Ba, Kiros and Hinton 2016): y[t] = (x[t] - mean(x[t])) / sqrt(variance(x[t]) + epsilon) * weight + bias
Rows layer_norm(const Rows& x, std::span<const double> weight, std::span<const double> bias, double epsilon);

}  // namespace weft::reference
