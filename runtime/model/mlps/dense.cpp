#include "model/mlps/dense.h"

#include "model/network.h"
#include "model/parts.h"
#include "model/product_inputs.h"

namespace weft {

void Dense::list(Parts& parts, int index, Pieces& pieces, const Roles& roles) {
  const Config& c = parts.config();
  const uint64_t width = c.width, ffn = c.ffn_of(static_cast<uint32_t>(index));
  std::vector<Part> inner = {{roles.up, ffn}};
  if (c.layer_kind.gated) {
    // Some families store gate and up as one.
    const TensorView *gate = parts.tensors().find(roles.gate, index), *up = parts.tensors().find(roles.up, index);
    const bool one = !gate && up && up->shape != std::vector<uint64_t>{ffn, width};
    inner = one ? std::vector<Part>{{roles.up, 2 * ffn}} : std::vector<Part>{{roles.gate, ffn}, {roles.up, ffn}};
  }
  pieces.matrices.push_back({gate_up.base, width, inner, c.layer_kind.ffn_bias});
  pieces.matrices.push_back({down.base, ffn, {{roles.down, width}}, c.layer_kind.ffn_bias});
}

void Dense::record_inner(const Network& n, const ops::Input& input) const {
  // The gate needs the whole product, including the adapters' parts.
  if (n.c.layer_kind.gated && !gate_up.adapted(n) && ops::can_gate(n.r.device().plan(), gate_up.base, n.tokens)) {
    if (n.pass.inputs) n.pass.inputs->take(n, gate_up, input);
    ops::matmul_gated(n.r, gate_up.base, n.c.layer_kind.activation, n.state, input, n.a.inner, n.tokens);
  } else {
    gate_up.apply(n, input, n.a.gate_up);
    n.activate(down.base.cols);
  }
}

void Dense::record(const Network& n, const ops::Input& input, const BranchEnd& end) const {
  record_inner(n, input);
  n.add_branch(down, n.a.inner, end);
}

}  // namespace weft
