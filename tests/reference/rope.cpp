#include "reference/rope.h"

#include <bit>
#include <cmath>
#include <vector>

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

void rotate_blocks(std::span<double> head, uint32_t signs) {
  for (size_t first = 0; first + 32 <= head.size(); first += 32) {
    const std::span<double> block = head.subspan(first, 32);
    const std::vector<double> from(block.begin(), block.end());
    for (uint32_t j = 0; j < 32; ++j) {
      block[j] = 0;
      for (uint32_t i = 0; i < 32; ++i)
        block[j] += (std::popcount(i & j) % 2 != 0) != (signs >> i & 1) ? -from[i] : from[i];
      block[j] /= std::sqrt(32.0);
    }
  }
}

}  // namespace weft::reference
