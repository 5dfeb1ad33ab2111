#include "model/mixers/mamba2.h"

#include "model/network.h"
#include "model/parts.h"

namespace weft {

void Mamba2::list(Parts& parts, int index, Pieces& pieces) {
  const Config& c = parts.config();
  const auto& [s, biased] = std::get<Mamba2Config>(c.layer_configs[static_cast<size_t>(index)].mixer);
  Tensors& tensors = parts.tensors();
  pieces.matrices.push_back({in.base, c.width, {{"mamba_in", s.projected_cols()}}, biased});
  pieces.matrices.push_back({out.base, s.values(), {{"mamba_out", c.width}}, biased});
  const bool gguf = parts.kind() == ModelFile::Kind::gguf;
  // GGUF has A itself, a folder the logarithm of -A.
  const std::vector<uint64_t> column = {s.heads, 1}, row = {s.heads};
  std::vector<Floats> floats = {{&tensors.kernel("mamba_conv", index, s.conv_cols(), s.taps)}};
  if (s.biased) floats.push_back({&tensors.bias("mamba_conv", index, s.conv_cols())});
  floats.push_back(
      {&tensors.need("mamba_decay", index, gguf ? column : row, ""), 0, 0, gguf ? Map::none : Map::minus_exp});
  floats.push_back({&tensors.need("mamba_bias", index, row, "")});
  floats.push_back({&tensors.need("mamba_skip", index, gguf ? column : row, "")});
  pieces.vectors.push_back({weights, std::move(floats)});
  const std::vector<uint64_t> groups = {s.key_heads, s.values() / s.key_heads}, whole = {s.values()};
  pieces.vectors.push_back({norm, {{&tensors.need("mamba_norm", index, gguf ? groups : whole)}}});
}

View Mamba2::record(const Network& n, uint32_t index, const ops::Input& input) const {
  const ops::LinearShape& s = std::get<Mamba2Config>(n.c.layer_configs[index].mixer).shape;
  in.apply(n, input, n.a.projected);
  n.scan(s, weights, index);
  ops::gate(n.r,
            {ops::GateKind::then_norm, s.key_heads, s.values() / s.key_heads, s.projected_cols(), s.z_at(), true,
             n.c.mixer_epsilon},
            n.state, n.a.projected, norm, n.a.scanned, n.tokens);
  return n.a.scanned;
}

}  // namespace weft
