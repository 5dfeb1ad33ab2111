// The kernels that share shaders/lib/rows.glsl: which variant, and how many tokens at once.
#pragma once

#include "ops/support.h"

namespace weft::ops {

struct RowsVariant {
  bool uniform;                     // inputs through a uniform binding, a dispatch per token group
  uint32_t tokens;                  // of a group
  uint32_t row_tiles;               // tiles of a workgroup
  std::vector<uint32_t> constants;  // of the kernel, in the order of rows.glsl
};

// For products of `matrix` with up to `tokens` inputs: groups of one, or of plan.block_tokens or an even part of it.
RowsVariant rows_variant(const Plan& plan, const Matrix& matrix, uint32_t tokens);

}  // namespace weft::ops
