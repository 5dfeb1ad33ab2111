#include "reference/rope.h"

#include <cmath>

namespace weft::reference {

double rope_angle(uint32_t position, uint32_t pair, uint32_t rotary_dim, double base) {
  return position * std::pow(base, -2.0 * pair / rotary_dim);
}

void rope(std::span<double> head, uint32_t position, uint32_t rotary_dim, double base, Pairs pairs) {
  for (uint32_t pair = 0; pair < rotary_dim / 2; ++pair) {
    const double angle = rope_angle(position, pair, rotary_dim, base);
    double& a = head[pairs == Pairs::adjacent ? 2 * pair : pair];
    double& b = head[pairs == Pairs::adjacent ? 2 * pair + 1 : pair + rotary_dim / 2];
    const double turned_a = a * std::cos(angle) - b * std::sin(angle);
    const double turned_b = b * std::cos(angle) + a * std::sin(angle);
    a = turned_a;
    b = turned_b;
  }
}

}  // namespace weft::reference
