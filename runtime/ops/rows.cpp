#include "ops/rows.h"

#include <algorithm>

namespace weft::ops {

RowsVariant rows_variant(const Plan& plan, const Matrix& matrix, uint32_t tokens) {
  const auto bytes = [&](uint32_t group) { return uint64_t{group} * stride_of(matrix.cols) * 4; };
  // A table's products are kept in order to the last bit, which leaves a compiler much code: no more than eight at
  // once.
  const uint32_t most = std::min({tokens, plan.block_tokens, matrix.layout == Layout::planes ? 8u : plan.block_tokens});
  uint32_t group = most;
  bool uniform = plan.uniform_inputs && !plan.texel_products;
  if (uniform) {
    while (group > 1 && bytes(group) > UNIFORM_BYTES) group /= 2;
    const bool aligned = group == tokens || bytes(group) % kViewAlignment == 0;  // where the next group's window begins
    if (bytes(group) > UNIFORM_BYTES || !aligned) uniform = false, group = most;
  }
  return {uniform,
          plan.texel_products,
          group,
          (plan.texel_products ? 8 : TILE_ROWS) * plan.row_tiles,
          {static_cast<uint32_t>(matrix.format), group, plan.split, plan.row_tiles}};
}

}  // namespace weft::ops
