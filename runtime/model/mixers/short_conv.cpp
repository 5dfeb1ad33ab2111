#include "model/mixers/short_conv.h"

#include <algorithm>

#include "model/network.h"
#include "model/parts.h"

namespace weft {

ShortConvState ShortConvConfig::state(const Config& config, const StateSize&) const {
  const uint32_t capacity = static_cast<uint32_t>(align_up(taps - 1 + kMostTakenBack, 8));
  ShortConvState state = {{{}, capacity}, taps};
  state.inputs.rows.bytes = ops::conv_input_bytes(config.width, capacity);
  return state;
}

void ShortConv::list(Parts& parts, int index, Pieces& pieces) {
  const Config& c = parts.config();
  const auto& [taps, biased] = std::get<ShortConvConfig>(c.layer_configs[static_cast<size_t>(index)].mixer);
  pieces.matrices.push_back({in.base, c.width, {{"shortconv_in", 3 * uint64_t{c.width}}}, biased});
  pieces.matrices.push_back({out.base, c.width, {{"shortconv_out", c.width}}, biased});
  std::vector<Floats> floats = {{&parts.tensors().kernel("shortconv_conv", index, c.width, taps)}};
  if (biased) floats.push_back({&parts.tensors().bias("shortconv_conv", index, c.width)});
  pieces.vectors.push_back({kernel, floats});
}

View ShortConv::record(const Network& n, uint32_t index, const ops::Input& input) const {
  const auto& [taps, biased] = std::get<ShortConvConfig>(n.c.layer_configs[index].mixer);
  in.apply(n, input, n.a.conv_gates);
  for (const TokenGroup& group : n.groups(index)) {
    ops::ConvInputs inputs = std::get<ShortConvState>(group.layer).inputs;
    inputs.member_tokens = group.member_tokens;
    ops::short_conv(n.r, {n.c.width, taps, biased}, group.state, group.a.conv_gates, kernel, inputs, group.a.convolved,
                    group.tokens);
  }
  return n.a.convolved;
}

}  // namespace weft
