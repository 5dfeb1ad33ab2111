#include "reference/activate.h"

#include <algorithm>
#include <cmath>

namespace weft::reference {

double activated(Activation activation, double v) {
  switch (activation) {
    case Activation::silu:
      return v / (1 + std::exp(-v));
    case Activation::gelu:
      return v * std::erfc(-v / std::sqrt(2.0)) / 2;
    case Activation::gelu_tanh:
      return v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))) / 2;
    case Activation::tanh:
      return std::tanh(v);
    case Activation::relu:
      return std::max(v, 0.0);
    case Activation::relu_squared:
      return std::pow(std::max(v, 0.0), 2);
    case Activation::clamped:
      break;
  }
  return 0;
}

Rows activate(Activation activation, bool gated, const Rows& x) {
  Rows y(x.rows, gated ? x.cols / 2 : x.cols);
  for (uint32_t t = 0; t < y.rows; ++t)
    for (uint32_t i = 0; i < y.cols; ++i) {
      const double v = x.row(t)[i], up = gated ? x.row(t)[y.cols + i] : 1, least = std::min(v, 7.0);
      y.row(t)[i] = activation == Activation::clamped
                        ? least / (1 + std::exp(-1.702 * least)) * (std::clamp(up, -7.0, 7.0) + 1)
                        : activated(activation, v) * up;
    }
  return y;
}

}  // namespace weft::reference
