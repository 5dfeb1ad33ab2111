#include "model/layer.h"

#include "model/config.h"
#include "model/parts.h"

namespace weft {

Layer::Layer(const Config& config, uint32_t index) {
  std::visit([&](const auto& own) { mixer = typename std::decay_t<decltype(own)>::Mixer(); },
             config.layer_configs[index].mixer);
  if (config.layer_configs[index].experts) mlp = Experts();
  if (config.layer_kind.sees_source) cross.emplace();
  if (config.layer_input > 0) input.emplace();
  // Known before there are weights: what lists products takes no account of their rows.
  const LayerKind& kind = config.layer_kind;
  if (auto* const attention = std::get_if<Attention>(&mixer))
    attention->gated = kind.attention_gate != AttentionGate::none;
  if (auto* const experts = std::get_if<Experts>(&mlp)) {
    experts->has_shared = kind.shared_expert != SharedExpert::none;
    experts->gates_shared = kind.shared_expert == SharedExpert::gated;
  }
}

void Layer::list(Parts& parts, int index, Pieces& pieces) {
  const LayerKind& kind = parts.config().layer_kind;
  // If norms come after the branches, the last norm of the last layer is the network's final one.
  const bool after = kind.norm_after, last = index + 1 == static_cast<int>(parts.config().layers);
  const bool own = after ? !last : !kind.shared_norm && !kind.unnormed;
  if (own) pieces.vectors.push_back({ffn_norm, parts.norm_parts(after ? "layer_output_norm" : "ffn_norm", index)});
  if (kind.norm_branches) {
    pieces.vectors.push_back({mixer_branch_norm, parts.norm_parts("post_attention_norm", index)});
    pieces.vectors.push_back({ffn_branch_norm, parts.norm_parts("post_ffw_norm", index)});
  }
  std::visit([&](auto& part) { part.list(parts, index, pieces); }, mixer);
  std::visit([&](auto& part) { part.list(parts, index, pieces); }, mlp);
  if (cross) cross->list(parts, index, pieces);
  if (input) input->list(parts, index, pieces);
  if (kind.scaled) scale = parts.layer_scale(index);
}

const Linear& Layer::mixer_out() const {
  return std::visit([](const auto& part) -> const Linear& { return part.out; }, mixer);
}

const Linear* Layer::last() const {
  if (input) return &input->out;
  return std::visit([](const auto& part) { return part.last(); }, mlp);
}

std::vector<const Linear*> Layer::linears() const {
  std::vector<const Linear*> all = std::visit([](const auto& part) { return part.linears(); }, mixer);
  for (const Linear* linear : std::visit([](const auto& part) { return part.linears(); }, mlp)) all.push_back(linear);
  if (cross) all.insert(all.end(), {&cross->q, &cross->out});
  if (input) all.insert(all.end(), {&input->gate, &input->out});
  return all;
}

}  // namespace weft
