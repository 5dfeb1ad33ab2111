#include "model/layer_input.h"

#include <cmath>

#include "model/network.h"
#include "model/parts.h"
#include "ops/linear_attention.h"

namespace weft {

void LayerInputs::list(Parts& parts, Pieces& pieces) {
  const Config& c = parts.config();
  pieces.matrices.push_back(
      {projection.base, c.width, {{"per_layer_proj", uint64_t{c.layers} * c.layer_input}}, false});
}

void LayerInputs::record(const Network& n) const {
  const Config& c = n.c;
  const View& rows = n.a.layer_inputs;
  projection.apply(n, n.a.x, rows);
  // The product counts as divided by sqrt(width): that only changes the epsilon.
  ops::norm_heads(n.r, {c.layers, 0, c.layer_input}, n.state, norm, rows, c.mixer_epsilon * static_cast<float>(c.width),
                  n.tokens);
  if (!table) return;
  const float scale = std::sqrt(static_cast<float>(c.layer_input) / 2);
  for (const Pass& one : n.pass.sessions())
    ops::gather(n.r, table->matrix(), one.step.state, one.step.history, one.a.layer_inputs, one.tokens, scale,
                ops::Output::add);
}

void LayerInput::list(Parts& parts, int index, Pieces& pieces) {
  const Config& c = parts.config();
  pieces.matrices.push_back({gate.base, c.width, {{"layer_gate", c.layer_input}}, false});
  pieces.matrices.push_back({out.base, c.layer_input, {{"layer_proj", c.width}}, false});
  pieces.vectors.push_back({norm, parts.norm_parts("layer_post_norm", index)});
}

void LayerInput::record(const Network& n, uint32_t index, const View& next, float scale) const {
  const Config& c = n.c;
  gate.apply(n, n.a.x, n.a.layer_gate);
  ops::gate(n.r, {ops::GateKind::of_gelu, 1, c.layer_input, c.layers * c.layer_input, index * c.layer_input}, n.state,
            n.a.layer_inputs, View(), n.a.layer_gate, n.tokens);
  n.add_branch(out, n.a.layer_gate, {norm, next, scale});
}

}  // namespace weft
