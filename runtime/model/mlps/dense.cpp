#include "model/mlps/dense.h"

#include "model/network.h"
#include "model/parts.h"

namespace weft {

void Dense::list(Parts& parts, int index, Pieces& pieces) {
  const Config& c = parts.config();
  const uint64_t width = c.width, ffn = c.ffn;
  std::vector<Part> inner = {{"ffn_up", ffn}};
  if (c.layer_kind.gated) {
    // Some families store gate and up as one.
    const TensorView *gate = parts.tensors().find("ffn_gate", index), *up = parts.tensors().find("ffn_up", index);
    const bool one = !gate && up && up->shape != std::vector<uint64_t>{ffn, width};
    inner = one ? std::vector<Part>{{"ffn_up", 2 * ffn}} : std::vector<Part>{{"ffn_gate", ffn}, {"ffn_up", ffn}};
  }
  pieces.matrices.push_back({gate_up, width, inner, c.layer_kind.ffn_bias});
  pieces.matrices.push_back({down, ffn, {{"ffn_down", width}}, c.layer_kind.ffn_bias});
}

void Dense::record(const Network& n, const ops::Input& input, const View& own_norm, const View& next) const {
  if (n.c.layer_kind.gated && ops::can_gate(n.r.device().plan(), gate_up, n.tokens)) {
    ops::matmul_gated(n.r, gate_up, n.c.layer_kind.activation, n.state, input, n.a.inner, n.tokens);
  } else {
    n.matmul(gate_up, input, n.a.gate_up);
    n.activate();
  }
  n.add_branch(down, n.a.inner, own_norm, next);
}

}  // namespace weft
