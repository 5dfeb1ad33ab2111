// A mixture of experts: a router chooses some of a layer's feed-forwards for each token (Jiang et al. 2024, "Mixtral of
// Experts"). Beside them there may be one that every token goes through (Dai et al. 2024, "DeepSeekMoE").
#pragma once

#include <vector>

#include "model/linear.h"
#include "model/mlps/dense.h"

namespace weft {

struct Experts {
  Linear router;         // (experts, width)
  View choice_bias;      // (experts), if the family has it (ops::route)
  Matrix gate_up, down;  // as ops::matmul_expert has them
  bool has_shared = false, gates_shared = false;
  Dense shared;        // of all tokens
  Linear shared_gate;  // (1, width)

  void list(Parts& parts, int index, Pieces& pieces);
  std::vector<const Linear*> linears() const;
  const Linear* last() const { return nullptr; }
  // x += the weighted sum of the chosen experts' feed-forwards, and the shared one. No norm comes after it.
  void record(const Network& network, const ops::Input& input, const BranchEnd&) const;

 private:
  void record_shared(const Network& network, const ops::Input& input) const;
};

}  // namespace weft
