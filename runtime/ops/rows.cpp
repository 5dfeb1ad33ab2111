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
          matmul_rows(plan),
          matrix.format,
          group,
          plan.split,
          plan.row_tiles};
}

namespace {

constexpr uint32_t kFewestRows = 8;         // a line of 128 bytes (abi.h)
constexpr uint64_t kGroupBytes = 96 << 10;  // about what a workgroup reads of a large matrix (apps/bench/results)

// Runs of blocks that a lane's loads cover at once (shaders/lib/rows.glsl).
uint32_t turns(const Matrix& matrix) { return ceil_div(matrix.blocks(), matrix.has(Format::f16) ? 1 : 2); }

}  // namespace

uint32_t spread_rows(const Plan& plan, const Matrix& matrix, uint32_t results) {
  uint32_t rows = TILE_ROWS;
  if (plan.texel_products || plan.row_tiles > 1 || plan.int8_inputs) return rows;
  const uint32_t threads = TILE_ROWS * plan.split;
  const uint64_t groups = std::max<uint64_t>(plan.product_groups, matrix.bytes() / kGroupBytes);
  while (rows > kFewestRows && ceil_div(results, rows) < groups && threads / rows < turns(matrix)) rows /= 2;
  return rows;
}

uint32_t blocks_at_once(const Plan& plan, const Matrix& matrix, const RowsVariant& variant) {
  const bool few = variant.texel || variant.tokens > 1 || plan.block_tokens < 4 || matrix.has(Format::f16);
  return few ? 1 : 2;
}

void RowsVariant::spread(const Plan& plan, const Matrix& matrix, uint32_t results) {
  if (texel) return;
  lane_rows = spread_rows(plan, matrix, results);
  group_rows = lane_rows * plan.row_tiles;
  split = plan.split * (TILE_ROWS / lane_rows);
  uniform_parts &= lane_rows == TILE_ROWS;
  // A workgroup's rows have one format.
  if (matrix.first_rows % group_rows == 0) return;
  row_tiles = 1;
  group_rows = lane_rows;
}

void RowsVariant::pair_tiles(const Plan& plan, const Matrix& matrix) {
  // Polynomials of two tiles' numbers take more registers than Apple's M1 has.
  const bool polynomials = matrix.has(Format::iq4_nl) || matrix.has(Format::iq4_xs);
  const bool large = matrix.has(Format::q6) || matrix.has(Format::q2k);
  const bool few = plan.fewest_registers || (tokens > 1 && polynomials) || (plan.gates_apart && large);
  if ((row_tiles == 1 && few) || matrix.first_rows > 0) {
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
