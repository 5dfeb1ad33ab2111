#include "model/mixers/gated_delta.h"

#include "model/network.h"
#include "model/parts.h"

namespace weft {

void GatedDelta::list(Parts& parts, int index, Pieces& pieces) {
  const Config& c = parts.config();
  const ops::LinearShape& s = std::get<GatedDeltaConfig>(c.layer_configs[static_cast<size_t>(index)].mixer).shape;
  Tensors& tensors = parts.tensors();
  pieces.matrices.push_back(
      {in.base,
       c.width,
       {{"delta_qkv", s.conv_cols()}, {"delta_z", s.values()}, {"delta_a", s.heads}, {"delta_b", s.heads}},
       false});
  pieces.matrices.push_back({out.base, s.values(), {{"delta_out", c.width}}, false});
  const bool logarithm = parts.kind() == ModelFile::Kind::huggingface;  // of -A
  pieces.vectors.push_back(
      {weights,
       {{&tensors.kernel("delta_conv", index, s.conv_cols(), s.taps)},
        {&tensors.need("delta_decay", index, {s.heads}, ""), 0, 0, logarithm ? Map::minus_exp : Map::none},
        {&tensors.need("delta_bias", index, {s.heads}, "")}}});
  pieces.vectors.push_back({norm, {{&tensors.need("delta_norm", index, {s.value_dim})}}});
}

View GatedDelta::record(const Network& n, uint32_t index, const ops::Input& input) const {
  const ops::LinearShape& s = std::get<GatedDeltaConfig>(n.c.layer_configs[index].mixer).shape;
  in.apply(n, input, n.a.projected);
  n.scan(s, weights, index);
  ops::gate(n.r,
            {ops::GateKind::after_norm, s.heads, s.value_dim, s.projected_cols(), s.z_at(), false, n.c.mixer_epsilon},
            n.state, n.a.projected, norm, n.a.scanned, n.tokens);
  return n.a.scanned;
}

}  // namespace weft
