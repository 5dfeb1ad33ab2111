#include "model/mlps/experts.h"

#include "model/network.h"
#include "model/parts.h"

namespace weft {

void Experts::list(Parts& parts, int index, Pieces& pieces) {
  (void)index;
  const Config& c = parts.config();
  const uint64_t width = c.width, ffn = c.ffn;
  const uint32_t count = c.experts.count;
  // The router is small and decides between experts: never rounded to less than f16.
  pieces.matrices.push_back({router.base, width, {{"ffn_gate_inp", count}}, false, 0, Format::f16});
  pieces.matrices.push_back({gate_up, width, {{"ffn_gate_exps", ffn}, {"ffn_up_exps", ffn}}, false, count});
  pieces.matrices.push_back({down, ffn, {{"ffn_down_exps", width}}, false, count});
}

void Experts::record(const Network& n, const ops::Input& input, const BranchEnd&) const {
  const ops::Experts& experts = n.c.experts;
  router.apply(n, input.x, n.a.routing);
  ops::route(n.r, experts, n.state, n.a.routing, n.a.chosen, n.tokens);
  for (uint32_t rank = 0; rank < experts.used; ++rank) {
    ops::matmul_expert(n.r, gate_up, experts, rank, n.state, n.a.chosen, input.x, n.a.gate_up, n.tokens,
                       ops::Output::write);
    n.activate(down.cols);
    ops::matmul_expert(n.r, down, experts, rank, n.state, n.a.chosen, n.a.inner, n.a.x, n.tokens, ops::Output::add);
  }
}

}  // namespace weft
