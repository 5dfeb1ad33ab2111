#include "reference/swiglu.h"

#include <cmath>

namespace weft::reference {

Rows swiglu(const Rows& gate_up) {
  Rows y(gate_up.rows, gate_up.cols / 2);
  for (uint32_t t = 0; t < y.rows; ++t)
    for (uint32_t i = 0; i < y.cols; ++i) {
      const double gate = gate_up.row(t)[i], up = gate_up.row(t)[y.cols + i];
      y.row(t)[i] = gate / (1 + std::exp(-gate)) * up;
    }
  return y;
}

}  // namespace weft::reference
