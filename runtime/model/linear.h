// A product of a layer: every token's way through the weights.
#pragma once

#include "ops/ops.h"

namespace weft {

struct Network;

// y = base x, with the bias that the matrix has, and scale * B (A x) of each session whose adapter (adapter.h) has a
// pair of matrices for this product.
struct Linear {
  Matrix base;

  // y = that, or y += that. begin: of the norm of y, as ops::matmul has it; only with Output::add.
  void apply(const Network& network, const ops::Input& x, const View& y, ops::Output output = ops::Output::write,
             const ops::BeginNorm* begin = nullptr) const;
  // True if an adapter of the pass has a pair for it.
  bool adapted(const Network& network) const;
};

}  // namespace weft
