#include "convert/rounding/rounding.h"

#include <algorithm>
#include <array>

namespace weft {
namespace {

BlockRounder rounder(DType type) {
  const BlockRounder small = small_rounder(type);
  return small ? small : super_rounder(type);
}

using Factors = std::array<float, 256>;

// A block's factors relative to their maximum, so that the sums of the rounders neither overflow nor vanish. The least
// is 1e-10: a column that does not matter is not cut off freely. If all are 0, the result has ones.
Factors relative(std::span<const float> factors) {
  Factors own;
  const double most = *std::ranges::max_element(factors);
  for (size_t i = 0; i < factors.size(); ++i)
    own[i] = most > 0 ? static_cast<float>(std::max(factors[i] / most, 1e-10)) : 1;
  return own;
}

}  // namespace

bool is_rounded_by_search(DType type) { return rounder(type) != nullptr; }

void round_row(DType type, std::span<const float> values, std::span<const float> importance, std::byte* out) {
  Factors own;
  own.fill(1);
  const BlockRounder round = rounder(type);
  const uint64_t elements = block_elements(type), bytes = block_bytes(type);
  for (uint64_t first = 0; first < values.size(); first += elements, out += bytes) {
    if (!importance.empty()) own = relative(importance.subspan(first, elements));
    round(&values[first], own.data(), out);
  }
}

}  // namespace weft
