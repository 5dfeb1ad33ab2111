#include "model/config_experts.h"

#include <algorithm>

#include "base/error.h"
#include "model/config_mixers.h"

namespace weft {
namespace {

using ops::kMostExperts;

void have_no_experts(Config& c) {
  c.layer_kind.shared_expert = SharedExpert::none;
  c.layer_kind.expert_bias = false;
}

template <class Chosen>
void place_experts(Config& c, const Chosen& chosen) {
  for (uint32_t layer = 0; layer < c.layers; ++layer) c.layer_configs[layer].experts = chosen(layer);
}

// Weft does not choose experts from some groups alone.
void refuse_groups(const JsonObject& values, const std::string& key) {
  if (values.integer(key, 0, kMostExperts, 1) > 1) unsupported("not supported: '" + key + "' above 1", values);
}

// The numbers of the clamped gate are the shader's.
void check_clamp(const JsonObject& values) {
  for (const auto& [key, usual] : {std::pair{"swiglu_limit", 7.0}, {"swiglu_alpha", 1.702}})
    if (values.number(key, 0, 1e6, usual) != usual)
      unsupported("not supported: '" + std::string(key) + "' other than the first models'", values);
}

}  // namespace

void read_gguf_experts(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p) {
  ops::Experts& e = c.experts;
  e.count = values.integer(p + "expert_count", 0, kMostExperts, 0);
  if (e.count == 0) return have_no_experts(c);
  e.used = values.integer(p + "expert_used_count", 1, e.count);
  c.expert_ffn = values.integer(p + "expert_feed_forward_length", 1, kMost, c.ffn);
  // llama.cpp's numbers: the softmax, and the sigmoid.
  e.sigmoid = values.integer(p + "expert_gating_func", 1, 2, c.traits->short_conv ? 2 : 1) == 2;
  e.normalised = values.flag(p + "expert_weights_norm", !c.traits->raw_gates);
  e.scale = values.real(p + "expert_weights_scale", kTiny, 1e6, 1);
  refuse_groups(values, p + "expert_group_count");
  if (c.layer_kind.shared_expert != SharedExpert::none)
    c.ffn = values.integer(p + "expert_shared_feed_forward_length", 1, kMost);
  const uint32_t dense = values.integer(p + "leading_dense_block_count", 0, c.layers, 0);
  place_experts(c, [&](uint32_t layer) { return layer >= dense; });
  for (uint32_t layer = dense; layer < c.layers; ++layer)
    c.layer_kind.choice_bias |=
        file.find(tensor_name(file.kind, *c.traits, "exp_probs_b", static_cast<int>(layer), "bias")) != nullptr;
}

void read_huggingface_experts(Config& c, const JsonObject& values) {
  ops::Experts& e = c.experts;
  const std::string key = values.either({"num_local_experts", "num_experts"});
  e.count = values.integer(key, 0, kMostExperts, 0);
  if (e.count == 0 || (e.count == 1 && !c.traits->experts)) return have_no_experts(c);  // Hunyuan's files say 1
  if (!c.traits->experts) unsupported("not supported: experts in this family", values);
  e.used = values.integer("num_experts_per_tok", 1, e.count);
  c.expert_ffn = values.integer(values.either({"moe_intermediate_size", "intermediate_size"}), 1, kMost);
  if (c.layer_kind.shared_expert != SharedExpert::none)
    c.ffn = values.integer(values.either({"shared_expert_intermediate_size", "shared_intermediate_size"}), 1, kMost);
  if (c.layer_kind.activation == ops::Activation::clamped) check_clamp(values);
  e.sigmoid = c.traits->short_conv;
  // Only these families ask.
  if (e.sigmoid || c.traits->raw_gates || c.family == "qwen3_moe")
    e.normalised = values.flag("norm_topk_prob", e.sigmoid);
  if (e.sigmoid) {
    e.scale = values.real("routed_scaling_factor", kTiny, 1e6, 1);
    c.layer_kind.choice_bias = values.flag("use_expert_bias", true);
    const uint32_t dense = values.integer("num_dense_layers", 0, c.layers, std::min(2u, c.layers));
    return place_experts(c, [&](uint32_t layer) { return layer >= dense; });
  }
  const bool some = c.family == "qwen3_moe" || c.family == "qwen2_moe";
  const uint32_t step = some ? values.integer("decoder_sparse_step", 1, kMostLayers, 1) : 1;
  place_experts(c, [&](uint32_t layer) { return (layer + 1) % step == 0; });
  if (some && values.has("mlp_only_layers"))
    for (const JsonValue& index : values.array("mlp_only_layers"))
      c.layer_configs[values.integer_of(index, "mlp_only_layers", 0, c.layers - 1)].experts = false;
  const bool all = std::ranges::all_of(c.layer_configs, [](const LayerConfig& layer) { return layer.experts; });
  if (c.layer_kind.shared_expert != SharedExpert::none && !all)
    unsupported("not supported: layers without experts beside a shared expert", values);
}

}  // namespace weft
