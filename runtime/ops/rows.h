// The kernels that share shaders/lib/rows.glsl: which variant, and how many tokens at once.
#pragma once

#include "ops/support.h"

namespace weft::ops {

struct RowsVariant {
  bool texel;           // weights and inputs as texels
  bool uniform_parts;   // the lanes of a subgroup have the same part of the columns
  uint32_t group_rows;  // of a workgroup of matmul and project
  // Specialisation constants of product.glsl.
  Format format;
  uint32_t tokens;  // of a group
  uint32_t split, row_tiles;
  uint32_t lane_rows = TILE_ROWS;  // of matmul: lanes of a part of the columns

  // For a layer's product: the lanes of a workgroup have few rows and share their columns among many, if the matrix is
  // too small to fill a device with workgroups of TILE_ROWS rows. results: rows of the output.
  void spread(const Plan& plan, const Matrix& matrix, uint32_t results);
  // A lane gets whole pairs of rows, which are in different tiles, if it does not compute them one after the other
  // (rows.glsl, GATED).
  void pair_tiles(const Plan& plan, const Matrix& matrix);
  // uniform: the variant for uniform parts
  template <class S>
  const S& choose(const S& plain, const S& uniform, const S& with_texel) const {
    return texel ? with_texel : uniform_parts ? uniform : plain;
  }
};

// For products of `matrix` with `tokens` inputs, which are at most plan.block_tokens (of a table, at most eight), or a
// multiple of that.
RowsVariant rows_variant(const Plan& plan, const Matrix& matrix, uint32_t tokens);

// Blocks that a lane loads before it multiplies the first: two for a single token, so that enough bytes are on their
// way (apps/bench/roofline.py). Lanes with more tokens or f16 weights, and those of devices with few registers, hold
// enough already.
uint32_t blocks_at_once(const Plan& plan, const Matrix& matrix, const RowsVariant& variant);

// RowsVariant::lane_rows of a layer's product.
uint32_t spread_rows(const Plan& plan, const Matrix& matrix, uint32_t results);
uint32_t rows_per_group(const Plan& plan);  // of a workgroup of project_rows, estimate and refine
uint32_t matmul_rows(const Plan& plan);     // of a workgroup of project, and of matmul unless it is spread

}  // namespace weft::ops
