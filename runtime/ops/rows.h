// The kernels that share shaders/lib/rows.glsl: which variant, and how many tokens at once.
#pragma once

#include "ops/support.h"

namespace weft::ops {

struct RowsVariant {
  bool texel;                       // weights and inputs as texels
  uint32_t tokens;                  // of a group
  uint32_t group_rows;              // of a workgroup of matmul and project
  std::vector<uint32_t> constants;  // of the kernel, in the order of rows.glsl

  const Shader& of(const Shader& plain, const Shader& with_texel) const { return texel ? with_texel : plain; }
};

// For products of `matrix` with up to `tokens` inputs: groups of one, or of plan.block_tokens (of a table at most
// eight) or an even part of it.
RowsVariant rows_variant(const Plan& plan, const Matrix& matrix, uint32_t tokens);

uint32_t rows_per_group(const Plan& plan);  // of products without split columns

}  // namespace weft::ops
