#include "ops/rows.h"

#include <algorithm>

namespace weft::ops {

RowsVariant rows_variant(const Plan& plan, const Matrix& matrix, uint32_t tokens) {
  // A table's products are kept in order to the last bit, which leaves a compiler much code: no more than eight at
  // once.
  const uint32_t group =
      std::min({tokens, plan.block_tokens, matrix.layout == Layout::planes ? 8u : plan.block_tokens});
  return {plan.texel_products,
          plan.uniform_parts && !plan.texel_products && plan.split > 1,
          group,
          matmul_rows(plan),
          {static_cast<uint32_t>(matrix.format), group, plan.split, plan.row_tiles}};
}

void RowsVariant::pair_tiles(const Plan& plan) {
  uint32_t& row_tiles = constants[3];
  if (row_tiles == 1 && plan.fewest_registers) {
    group_rows *= 2;
    return;
  }
  // By texels eight lanes read whole groups of a tile: four rows a lane of each of the two tiles (abi.h).
  if (row_tiles % 2 == 0 && !(texel && row_tiles == 4)) return;
  row_tiles *= 2;
  group_rows *= 2;
}

uint32_t matmul_rows(const Plan& plan) { return (plan.texel_products ? 8 : TILE_ROWS) * plan.row_tiles; }
uint32_t rows_per_group(const Plan& plan) { return TILE_ROWS * plan.row_tiles; }

}  // namespace weft::ops
