#include "reference/matmul.h"

#include <cmath>

namespace weft::reference {

Rows matmul(const Rows& weights, const Rows& x) {
  Rows y(x.rows, weights.rows);
  for (uint32_t t = 0; t < x.rows; ++t)
    for (uint32_t r = 0; r < weights.rows; ++r) {
      const std::span<const double> w = weights.row(r), in = x.row(t);
      double sum = 0;
      for (uint32_t c = 0; c < weights.cols; ++c) sum += w[c] * in[c];
      y.row(t)[r] = sum;
    }
  return y;
}

Rows matmul_magnitude(const Rows& weights, const Rows& x) {
  const auto magnitude = [](Rows values) {
    for (double& value : values.values) value = std::abs(value);
    return values;
  };
  return matmul(magnitude(weights), magnitude(x));
}

}  // namespace weft::reference
