#include "model/config_mixers.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/config_gemma4.h"

namespace weft {
namespace {

constexpr uint32_t kMostHead = 4096;  // dimensions of a head

// Gives some layers another mixer in place of attention.
template <class Chosen>
void place_mixers(Config& c, const MixerConfig& mixer, const Chosen& chosen) {
  for (uint32_t layer = 0; layer < c.layers; ++layer)
    if (chosen(layer)) c.layer_configs[layer].mixer = mixer;
}

void read_gguf_lfm2(Config& c, const ModelFile& file, const JsonObject& values, std::span<const uint32_t> kv_heads) {
  const uint32_t taps = values.integer(c.family + ".shortconv.l_cache", 1, ops::kMostTaps);
  const auto first = std::ranges::find(kv_heads, 0u);
  if (first == kv_heads.end()) return;
  const int layer = static_cast<int>(first - kv_heads.begin());
  const bool biased = file.find(tensor_name(file.kind, *c.traits, "shortconv_in", layer, "bias")) != nullptr;
  place_mixers(c, ShortConvConfig{taps, biased}, [&](uint32_t index) { return kv_heads[index] == 0; });
}

// Linear attention has the keys of Mamba: the inner states are the values, a time step is a head's.
ops::LinearShape read_gguf_linear(const JsonObject& values, const std::string& p, bool delta) {
  const uint32_t heads = values.integer(p + "ssm.time_step_rank", 1, 4096);
  const uint32_t inner = values.integer(p + "ssm.inner_size", 1, kMost);
  if (inner % heads != 0) values.refuse(p + "ssm.inner_size", "a multiple of the number of heads");
  return {.delta = delta,
          .key_heads = values.integer(p + "ssm.group_count", 1, heads),
          .heads = heads,
          .key_dim = values.integer(p + "ssm.state_size", 1, ops::kMostKeyDim),
          .value_dim = inner / heads,
          .taps = values.integer(p + "ssm.conv_kernel", 1, ops::kMostTaps),
          .biased = false,
          .tiled = delta};
}

void read_gguf_qwen35(Config& c, const JsonObject& values, const std::string& p) {
  const ops::LinearShape shape = read_gguf_linear(values, p, true);
  const uint32_t every = values.integer(p + "full_attention_interval", 1, kMostLayers, 4);
  place_mixers(c, GatedDeltaConfig{shape}, [&](uint32_t layer) { return (layer + 1) % every != 0; });
}

void read_gguf_granite_hybrid(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p,
                              std::span<const uint32_t> kv_heads) {
  Mamba2Config mixer = {read_gguf_linear(values, p, false)};
  if (const auto first = std::ranges::find(kv_heads, 0u); first != kv_heads.end()) {
    const int layer = static_cast<int>(first - kv_heads.begin());
    const auto has_bias = [&](const char* role) {
      return file.find(tensor_name(file.kind, *c.traits, role, layer, "bias")) != nullptr;
    };
    mixer.shape.biased = has_bias("mamba_conv");
    mixer.biased = has_bias("mamba_in");
  }
  place_mixers(c, mixer, [&](uint32_t index) { return kv_heads[index] == 0; });
}

void read_huggingface_lfm2(Config& c, const JsonObject& values) {
  if (!c.traits->experts && !c.traits->lfm3 && values.flag("block_auto_adjust_ff_dim", true)) {
    const uint32_t step = values.integer("block_multiple_of", 1, kMost, 256);
    const double factor = values.number("block_ffn_dim_multiplier", kTiny, 1000, 1);
    const auto wanted = static_cast<uint64_t>(factor * (uint64_t{c.ffn} * 2 / 3));
    const uint64_t ffn = (wanted + step - 1) / step * step;
    if (ffn == 0 || ffn > kMost) values.refuse("block_ffn_dim_multiplier", "a feed-forward of a usual width");
    c.ffn = static_cast<uint32_t>(ffn);
  }
  c.tied = values.flag("tie_embedding", *c.tied);
  std::vector<bool> attends(c.layers, !values.has("full_attn_idxs"));
  if (values.has("layer_types")) {
    const JsonValue::Array& types = values.array("layer_types");
    for (uint32_t layer = 0; layer < c.layers; ++layer) attends[layer] = types[layer] != "conv";
  } else if (c.traits->lfm3) {
    for (uint32_t layer = 0; layer < c.layers; ++layer) attends[layer] = layer > 0 && layer % 2 == 0;
  } else if (values.has("full_attn_idxs")) {
    for (const JsonValue& index : values.array("full_attn_idxs"))
      attends[values.integer_of(index, "full_attn_idxs", 0, c.layers - 1)] = true;
  }
  const uint32_t taps = values.integer("conv_L_cache", 1, ops::kMostTaps, 3);
  place_mixers(c, ShortConvConfig{taps, values.flag("conv_bias", false)},
               [&](uint32_t layer) { return !attends[layer]; });
  if (!c.traits->lfm3) return;
  c.layer_kind.norm_branches = values.flag("use_sandwich_norm", true);
  if (!values.flag("use_attention_gate", true)) c.layer_kind.attention_gate = AttentionGate::none;
}

void read_huggingface_qwen35(Config& c, const JsonObject& values) {
  if (values.flag("attention_bias", false)) unsupported("not supported: 'attention_bias' in this family", values);
  if (!values.flag("attn_output_gate", true)) unsupported("not supported: 'attn_output_gate' false", values);
  const uint32_t heads = values.integer("linear_num_value_heads", 1, 4096, 32);
  const ops::LinearShape shape = {.delta = true,
                                  .key_heads = values.integer("linear_num_key_heads", 1, heads, 16),
                                  .heads = heads,
                                  .key_dim = values.integer("linear_key_head_dim", 1, ops::kMostKeyDim, 128),
                                  .value_dim = values.integer("linear_value_head_dim", 1, kMostHead, 128),
                                  .taps = values.integer("linear_conv_kernel_dim", 1, ops::kMostTaps, 4),
                                  .biased = false,
                                  .tiled = false};
  const uint32_t every = values.integer("full_attention_interval", 1, kMostLayers, 4);
  const bool listed = values.has("layer_types");
  place_mixers(c, GatedDeltaConfig{shape}, [&](uint32_t layer) {
    return listed ? values.array("layer_types")[layer] == "linear_attention" : (layer + 1) % every != 0;
  });
}

void read_huggingface_granite_hybrid(Config& c, const JsonObject& values) {
  c.ffn = values.integer("shared_intermediate_size", 1, kMost, 1024);  // with experts or without
  const uint32_t heads = values.integer("mamba_n_heads", 1, 4096, 128);
  const uint64_t inner = uint64_t{values.integer("mamba_expand", 1, 1024, 2)} * c.width;
  const bool automatic = !values.has("mamba_d_head") || values.at("mamba_d_head").is_string();
  const uint64_t head_dim = automatic ? inner / heads : values.integer("mamba_d_head", 1, kMostHead);
  if (heads * head_dim != inner || inner > kMost)
    values.refuse("mamba_n_heads", "heads whose columns are " + std::to_string(inner) + " together");
  if (values.has("time_step_limit")) {
    const JsonValue::Array& limits = values.array("time_step_limit");
    // Transformers writes infinity as an object.
    const auto is_infinite = [](const JsonValue& limit) {
      const JsonValue* name = limit.is_object() ? limit.find("__float__") : nullptr;
      return name ? *name == "Infinity" : limit.is_number() && std::isinf(limit.get<double>());
    };
    if (limits.size() != 2 || !limits[0].is_number() || limits[0].get<double>() != 0 || !is_infinite(limits[1]))
      unsupported("not supported: 'time_step_limit' other than 0 and Infinity", values);
  }
  const ops::LinearShape shape = {.delta = false,
                                  .key_heads = values.integer("mamba_n_groups", 1, heads, 1),
                                  .heads = heads,
                                  .key_dim = values.integer("mamba_d_state", 1, ops::kMostKeyDim, 256),
                                  .value_dim = static_cast<uint32_t>(head_dim),
                                  .taps = values.integer("mamba_d_conv", 1, ops::kMostTaps, 4),
                                  .biased = values.flag("mamba_conv_bias", true),
                                  .tiled = false};
  const std::string key = values.either({"layer_types", "layers_block_type"});
  place_mixers(c, Mamba2Config{shape, values.flag("mamba_proj_bias", false)}, [&](uint32_t layer) {
    if (!values.has(key)) return true;
    const JsonValue& type = values.array(key)[layer];
    return type == "linear_attention" || type == "mamba";
  });
}

}  // namespace

void unsupported(const std::string& what, const JsonObject& values) {
  throw Error(Code::unsupported, what, values.place());
}

std::vector<uint32_t> read_each(const JsonObject& values, const std::string& key, uint32_t layers, uint32_t most) {
  if (!values.has(key) || !values.at(key).is_array())
    return std::vector<uint32_t>(layers, values.integer(key, 1, most));
  std::vector<uint32_t> numbers;
  for (const JsonValue& number : values.array(key)) numbers.push_back(values.integer_of(number, key, 1, most));
  if (numbers.size() != layers) values.refuse(key, std::to_string(layers) + " numbers");
  return numbers;
}

// The key/value heads of each layer. One without attention has none, in families with other layers.
std::vector<uint32_t> read_kv_heads(const Config& c, const JsonObject& values, const std::string& p) {
  const std::string key = p + "attention.head_count_kv";
  if (c.traits->gemma4) return read_each(values, key, c.layers, 4096);
  if (!values.has(key) || !values.at(key).is_array())
    return std::vector<uint32_t>(c.layers, values.integer(key, 1, 4096, c.heads.heads));
  const uint32_t least = c.traits->short_conv || c.traits->mamba2 ? 0 : 1;
  std::vector<uint32_t> counts;
  uint32_t most = 0;
  for (const JsonValue& count : values.array(key)) {
    counts.push_back(values.integer_of(count, key, least, 4096));
    most = std::max(most, counts.back());
  }
  if (std::ranges::any_of(counts, [&](uint32_t count) { return count != 0 && count != most; }))
    unsupported("not supported: layers with different heads", values);
  if (counts.size() != c.layers || most == 0) values.refuse(key, std::to_string(c.layers) + " numbers, not all 0");
  return counts;
}

void read_gguf_mixers(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p,
                      std::span<const uint32_t> kv_heads) {
  if (c.traits->gated_delta) read_gguf_qwen35(c, values, p);
  if (c.traits->mamba2) read_gguf_granite_hybrid(c, file, values, p, kv_heads);
  if (c.traits->short_conv) read_gguf_lfm2(c, file, values, kv_heads);
  if (c.traits->gemma4) read_gguf_gemma4(c, file, values, p, kv_heads);
}

void read_huggingface_mixers(Config& c, const JsonObject& values) {
  if (c.traits->gated_delta) read_huggingface_qwen35(c, values);
  if (c.traits->mamba2) read_huggingface_granite_hybrid(c, values);
  if (c.traits->short_conv) read_huggingface_lfm2(c, values);
  if (c.traits->gemma4) read_huggingface_gemma4(c, values);
}

}  // namespace weft
