// The gated short convolution of LFM2.
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// y[t] = C[t] * (bias + sum over k of kernel[k] * (B * x)[t - taps + 1 + k]), column by column; B * x is zero before
// the first row. gates (tokens, 3 * cols): B, C, x; kernel (cols, taps); bias (cols), or empty: zeros
Rows short_conv(const Rows& gates, std::span<const double> kernel, std::span<const double> bias);

}  // namespace weft::reference
