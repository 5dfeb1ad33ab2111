// A mixture of experts: a router chooses some of a layer's feed-forwards for each token (Jiang et al. 2024, "Mixtral of
// Experts").
#pragma once

#include <vector>

#include "model/linear.h"

namespace weft {

struct BranchEnd;
struct Config;
struct Network;
struct Pieces;
class Parts;

struct Experts {
  Linear router;         // (experts, width)
  Matrix gate_up, down;  // as ops::matmul_expert has them

  void list(Parts& parts, int index, Pieces& pieces);
  std::vector<const Linear*> linears() const { return {&router}; }
  const Linear* last() const { return nullptr; }
  // x += the weighted sum of the chosen experts' feed-forwards. No norm comes after it.
  void record(const Network& network, const ops::Input& input, const BranchEnd&) const;
};

}  // namespace weft
