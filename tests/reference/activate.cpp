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
  }
  return 0;
}

Rows activate(Activation activation, bool gated, const Rows& x) {
  Rows y(x.rows, gated ? x.cols / 2 : x.cols);
  for (uint32_t t = 0; t < y.rows; ++t)
    for (uint32_t i = 0; i < y.cols; ++i)
      y.row(t)[i] = activated(activation, x.row(t)[i]) * (gated ? x.row(t)[y.cols + i] : 1);
  return y;
}

}  // namespace weft::reference
