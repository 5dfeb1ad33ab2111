#include "convert/rounding/rounding.h"

#include <algorithm>
#include <array>

namespace weft {
namespace {

BlockRounder rounder(DType type) {
  const BlockRounder small = small_rounder(type);
  return small ? small : super_rounder(type);
}

}  // namespace

bool is_rounded_by_search(DType type) { return rounder(type) != nullptr; }

void round_row(DType type, std::span<const float> values, std::span<const float> importance, std::byte* out) {
  static constexpr auto kOnes = [] {
    std::array<float, 256> ones = {};
    ones.fill(1);
    return ones;
  }();
  const BlockRounder round = rounder(type);
  const uint64_t elements = block_elements(type), bytes = block_bytes(type);
  for (uint64_t first = 0; first < values.size(); first += elements, out += bytes) {
    const auto own = importance.empty() ? importance : importance.subspan(first, elements);
    const bool any = std::ranges::any_of(own, [](float factor) { return factor > 0; });
    round(&values[first], any ? own.data() : kOnes.data(), out);
  }
}

}  // namespace weft
