// The plain feed-forward: down(f(gate) * up) (Shazeer 2020, "GLU variants improve transformer"), or down(f(up)).
#pragma once

#include <vector>

#include "model/linear.h"

namespace weft {

struct BranchEnd;
struct Network;
struct Pieces;
class Parts;

struct Dense {
  Linear gate_up;  // (2 * ffn, width): gate, then up; not gated: (ffn, width)
  Linear down;     // (width, ffn)

  void list(Parts& parts, int index, Pieces& pieces) { list(parts, index, pieces, {"ffn_gate", "ffn_up", "ffn_down"}); }
  struct Roles {
    const char *gate, *up, *down;
  };
  void list(Parts& parts, int index, Pieces& pieces, const Roles& roles);
  std::vector<const Linear*> linears() const { return {&gate_up, &down}; }
  const Linear* last() const { return &down; }  // of the products that are added to x, if it is one
  // a.inner = f(gate) * up, or f(up).
  void record_inner(const Network& network, const ops::Input& input) const;
  // x += feed_forward(input), as Network::add_branch has it.
  void record(const Network& network, const ops::Input& input, const BranchEnd& end) const;
};

}  // namespace weft
