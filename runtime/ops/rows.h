// The kernels that share shaders/lib/rows.glsl: which variant, and how many tokens at once.
#pragma once

#include "ops/support.h"

namespace weft::ops {

struct RowsVariant {
  bool texel;                       // weights and inputs as texels
  bool uniform_parts;               // the lanes of a subgroup have the same part of the columns
  uint32_t tokens;                  // of a group
  uint32_t group_rows;              // of a workgroup of matmul and project
  std::vector<uint32_t> constants;  // of the kernel, in the order of product.glsl

  // A lane gets whole pairs of rows, which are in different tiles, if it does not compute them one after the other
  // (rows.glsl, GATED).
  void pair_tiles(const Plan& plan);
  // uniform: the variant for uniform parts
  KernelSpec kernel(const Shader& plain, const Shader& uniform, const Shader& with_texel) const {
    return {texel ? with_texel : uniform_parts ? uniform : plain, constants, uniform_parts};
  }
};

// For products of `matrix` with `tokens` inputs, which are at most plan.block_tokens (of a table, at most eight), or a
// multiple of that.
RowsVariant rows_variant(const Plan& plan, const Matrix& matrix, uint32_t tokens);

uint32_t rows_per_group(const Plan& plan);  // of a workgroup of project_rows, estimate and refine
uint32_t matmul_rows(const Plan& plan);     // of a workgroup of matmul and project: RowsVariant::group_rows

}  // namespace weft::ops
