#include "reference/norm.h"

#include <cmath>

namespace weft::reference {

Rows norm(const Rows& x, std::span<const double> weight, double epsilon) {
  Rows y(x.rows, x.cols);
  for (uint32_t t = 0; t < x.rows; ++t) {
    double squares = 0;
    for (const double value : x.row(t)) squares += value * value;
    const double root = std::sqrt(squares / x.cols + epsilon);
    for (uint32_t i = 0; i < x.cols; ++i) y.row(t)[i] = x.row(t)[i] / root * weight[i];
  }
  return y;
}

Rows layer_norm(const Rows& x, std::span<const double> weight, std::span<const double> bias, double epsilon) {
  Rows y(x.rows, x.cols);
  for (uint32_t t = 0; t < x.rows; ++t) {
    double mean = 0, variance = 0;
    for (const double value : x.row(t)) mean += value / x.cols;
    for (const double value : x.row(t)) variance += (value - mean) * (value - mean) / x.cols;
    for (uint32_t i = 0; i < x.cols; ++i)
      y.row(t)[i] = (x.row(t)[i] - mean) / std::sqrt(variance + epsilon) * weight[i] + bias[i];
  }
  return y;
}

}  // namespace weft::reference
