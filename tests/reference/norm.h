// RMSNorm (Zhang and Sennrich 2019, "Root Mean Square Layer Normalization").
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// y[t] = x[t] / sqrt(mean(x[t]^2) + epsilon) * weight
Rows norm(const Rows& x, std::span<const double> weight, double epsilon);

}  // namespace weft::reference
