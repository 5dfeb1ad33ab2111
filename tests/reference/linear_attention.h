// Linear attention: Gated DeltaNet and Mamba-2, token after token.
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// The shape of ops::LinearShape.
struct LinearShape {
  bool delta;
  uint32_t key_heads, heads, key_dim, value_dim, taps;
  bool tiled;
  uint32_t keys() const { return key_heads * key_dim; }
  uint32_t values() const { return heads * value_dim; }
};

// A layer's weights.
struct LinearWeights {
  std::vector<double> kernel, bias;           // (conv_cols, taps); (conv_cols), or empty
  std::vector<double> a, dt_bias, skip = {};  // (heads); skip: of Mamba-2
};

// k | v | decay | rate | q of each token (scan_inputs.comp has the formulas), from the first token of a text on.
Rows scan_inputs(const LinearShape& shape, const LinearWeights& weights, const Rows& projected, double epsilon);
// S = decay S; S += k (rate (v - S^T k))^T, or, in Mamba-2, k (rate v)^T; y = S^T q, in Mamba-2 + skip v.
Rows scan(const LinearShape& shape, const LinearWeights& weights, const Rows& prepared);
// The same as ops::gate. weight: of all groups' columns.
enum class Gate {
  sigmoid,
  after_norm,
  then_norm,
  of_gelu,
  of_group
};  // of_group: as sigmoid, with equal gates in a group
Rows gate(Gate kind, uint32_t groups, const Rows& x, const Rows& gates, const std::vector<double>& weight,
          double epsilon);

}  // namespace weft::reference
