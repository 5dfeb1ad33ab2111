#include "reference/short_conv.h"

namespace weft::reference {

Rows short_conv(const Rows& gates, std::span<const double> kernel, std::span<const double> bias) {
  const uint32_t cols = gates.cols / 3, taps = static_cast<uint32_t>(kernel.size() / cols);
  Rows y(gates.rows, cols);
  for (uint32_t t = 0; t < gates.rows; ++t)
    for (uint32_t i = 0; i < cols; ++i) {
      double sum = bias.empty() ? 0 : bias[i];
      for (uint32_t k = 0; k < taps; ++k) {
        if (t + k + 1 < taps) continue;
        const std::span<const double> from = gates.row(t + k + 1 - taps);
        sum += kernel[i * taps + k] * from[i] * from[2 * cols + i];
      }
      y.row(t)[i] = gates.row(t)[cols + i] * sum;
    }
  return y;
}

}  // namespace weft::reference
