// Matrix times vectors.
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// y[t][r] = sum over c of weights[r][c] * x[t][c].      weights (rows, cols), x (tokens, cols), y (tokens, rows)
Rows matmul(const Rows& weights, const Rows& x);

// The same sum over magnitudes, by which rounding errors of the product are measured.
Rows matmul_magnitude(const Rows& weights, const Rows& x);

}  // namespace weft::reference
