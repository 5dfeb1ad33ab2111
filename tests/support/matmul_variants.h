// Shared by the tests of products: formats, and the variants that a plan should get.
#pragma once

#include "ops/rows.h"
#include "support/op_inputs.h"

namespace weft::test {

// Formats of super-blocks, whose rows are whole ones, and one of blocks: matmul_formats_test.cpp has the others.
// SwiftShader compiles each of these kernels for a second and more.
inline constexpr Format kMostNative[] = {Format::q6, Format::q5k, Format::q4k, Format::q5_0};

// True if products of few tokens round their inputs, under a plan that can.
inline bool rounds_few(const Plan& plan) { return plan.uniform_parts && plan.split > 1 && !plan.texel_products; }

// Variant of a layer's product with so many results: those that have few rows a workgroup have no variant for
// subgroups.
inline std::string layer_product(const Plan& plan, const Matrix& matrix, uint32_t results) {
  return ops::spread_rows(plan, matrix, results) < TILE_ROWS ? "matmul" : split_product("matmul", plan);
}

}  // namespace weft::test
