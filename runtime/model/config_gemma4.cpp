#include "model/config_gemma4.h"

#include "base/error.h"
#include "model/config_mixers.h"

namespace weft {
namespace {

constexpr uint32_t kMostHeads = 4096;
constexpr uint32_t kLayerInput = 256;

AttentionConfig& attention_of(Config& c, uint32_t layer) {
  return std::get<AttentionConfig>(c.layer_configs[layer].mixer);
}

// Layers with a window have the second RoPE.
bool is_local(const Config& c, uint32_t layer) { return c.attention_of(layer).rope == 1; }

struct Layers {
  ops::HeadShape local, global;
  uint32_t shared;       // last layers that read the caches of earlier ones, or all layers, those of another model
  bool keys_are_values;  // in layers without a window
};

// A layer that shares a cache reads that of the last layer before all such ones that has the same kind of window.
void complete(Config& c, const Layers& all, const JsonObject& values) {
  c.heads = all.local;
  c.attention_scale = 1;
  if (c.layer_input > 0 && c.layer_kind.activation != ops::Activation::gelu_tanh)
    unsupported("not supported: per-layer embeddings with this activation", values);
  const uint32_t own = c.layers - all.shared;
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    AttentionConfig& attention = attention_of(c, layer);
    const bool local = is_local(c, layer);
    if (local && attention.window == 0) throw Error(Code::bad_file, "the window has no length", values.place());
    attention.heads = local ? all.local : all.global;
    attention.rotary_dim = attention.heads.head_dim;
    attention.keys_are_values = !local && all.keys_are_values;
    if (layer < own) continue;
    if (c.traits->assistant) {
      attention.source = 0;  // which layer of the other model, fit_assistant says
      continue;
    }
    for (uint32_t before = 0; before < own; ++before)
      if (is_local(c, before) == local) attention.source = before;
    if (!attention.source)
      throw Error(Code::bad_file,
                  "layer " + std::to_string(layer) + " shares the cache of an earlier layer " +
                      (local ? "with" : "without") + " a window, and there is none",
                  values.place());
  }
}

ops::HeadShape overridden(ops::HeadShape shape, const JsonObject& own) {
  shape.head_dim = own.integer("head_dim", 1, kMostHeads, shape.head_dim);
  shape.kv_heads = own.integer("num_key_value_heads", 1, kMostHeads, shape.kv_heads);
  return shape;
}

bool same(const ops::HeadShape& a, const ops::HeadShape& b) {
  return a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim;
}

// Newer files say by layer what is other than in the rest.
void check_overrides(const Config& c, const Layers& all, const JsonObject& values) {
  if (!values.has("per_layer_config")) return;
  const JsonObject overrides = values.object("per_layer_config");
  const JsonValue& listed = values.at("per_layer_config");
  for (const auto& [index, own] : listed.members()) {
    bool known = false;
    for (uint32_t layer = 0; layer < c.layers && !known; ++layer) known = index == std::to_string(layer);
    if (!known) unsupported("not supported: 'per_layer_config' of '" + index + "'", values);
    const JsonObject of_layer = overrides.object(index);
    for (const auto& [key, value] : own.members())
      if (key != "head_dim" && key != "num_key_value_heads")
        unsupported("not supported: '" + key + "' of one layer", of_layer);
  }
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    const std::string index = std::to_string(layer);
    const ops::HeadShape found = overrides.has(index) ? overridden(c.heads, overrides.object(index)) : c.heads;
    if (!same(found, is_local(c, layer) ? all.local : all.global))
      unsupported("not supported: layers of one kind with different heads", values);
  }
}

// Last layers without caches of their own. A drafter has no others: 0 says it too.
uint32_t read_shared(const Config& c, const JsonObject& values) {
  const char* const key = "num_kv_shared_layers";
  if (!c.traits->assistant) return values.integer(key, 0, c.layers - 1, 0);
  if (const uint32_t given = values.integer(key, 0, c.layers, 0); given != 0 && given != c.layers)
    values.refuse(key, std::to_string(c.layers) + ", or 0");
  return c.layers;
}

}  // namespace

ops::HeadShape read_gemma4_global(const Config& c, const JsonObject& values) {
  if (values.has("per_layer_config")) {
    const JsonObject overrides = values.object("per_layer_config");
    // The last layer has no window.
    const std::string last = std::to_string(c.layers - 1);
    return overrides.has(last) ? overridden(c.heads, overrides.object(last)) : c.heads;
  }
  ops::HeadShape shape = c.heads;
  shape.head_dim = values.integer("global_head_dim", 1, kMostHeads, 512);
  if (values.flag("attention_k_eq_v", false) || c.layer_kind.sees_all)
    shape.kv_heads =
        values.integer("num_global_key_value_heads", 1, kMostHeads, c.layer_kind.sees_all ? 1 : shape.kv_heads);
  return shape;
}

bool sees_pictures_whole(const Config& c, const JsonObject& values, const std::string& key) {
  return c.traits->gemma4 && key == "use_bidirectional_attention" && values.has(key) && values.at(key) == "vision";
}

void read_gguf_gemma4(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p,
                      std::span<const uint32_t> kv_heads) {
  Layers all = {c.heads, c.heads, values.integer(p + "attention.shared_kv_layers", 0, c.layers - 1, 0), false};
  all.local.head_dim = values.integer(p + "attention.key_length_swa", 1, kMostHeads, c.heads.head_dim);
  if (values.integer(p + "attention.value_length_swa", 1, kMostHeads, all.local.head_dim) != all.local.head_dim)
    unsupported("not supported: keys and values of different lengths", values);
  for (uint32_t layer = c.layers; layer-- > 0;) {
    (is_local(c, layer) ? all.local : all.global).kv_heads = kv_heads[layer];
    // No key says so: the files lack the matrices of the values.
    if (!is_local(c, layer))
      all.keys_are_values = !file.find(tensor_name(file.kind, *c.traits, "attn_v", static_cast<int>(layer)));
  }
  for (uint32_t layer = 0; layer < c.layers; ++layer)
    if (kv_heads[layer] != (is_local(c, layer) ? all.local : all.global).kv_heads)
      unsupported("not supported: layers of one kind with different heads", values);
  const uint32_t turned = values.integer(p + "rope.dimension_count_swa", 1, kMostHeads, all.local.head_dim);
  if (turned != all.local.head_dim || c.ropes[0].frequencies.size() * 2 != all.global.head_dim)
    unsupported("not supported: a RoPE of some dimensions", values);
  c.ropes[1] = plain_rope(c.ropes[1].base, turned);
  c.layer_input = values.integer(p + "embedding_length_per_layer_input", 0, kMost, 0);
  complete(c, all, values);
}

void read_huggingface_gemma4(Config& c, const JsonObject& values) {
  if (values.flag("enable_moe_block", false)) unsupported("not supported: experts in this family", values);
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    if (c.layer_kind.sees_all) break;  // its own RoPEs are plain
    if (!values.has("rope_parameters") || !values.object("rope_parameters").has(kind))
      throw Error(Code::bad_file, "'rope_parameters' has no value '" + std::string(kind) + "'", values.place());
    values.object("rope_parameters").object(kind).at("rope_theta");
  }
  Layers all = {c.heads, read_gemma4_global(c, values), read_shared(c, values), values.flag("attention_k_eq_v", false)};
  // Transformers has the last layer see everything, whatever the list says.
  AttentionConfig& last = attention_of(c, c.layers - 1);
  last.window = 0;
  last.rope = 0;
  check_overrides(c, all, values);
  c.layer_input = values.integer("hidden_size_per_layer_input", 0, kMost, kLayerInput);
  if (c.traits->assistant && c.layer_input > 0)
    unsupported("not supported: 'hidden_size_per_layer_input' of a drafter", values);
  const uint32_t ffn = c.ffn, own = c.layers - all.shared;
  if (values.flag("use_double_wide_mlp", false) && all.shared > 0) {
    if (ffn > kMost / 2) values.refuse("intermediate_size", "at most " + std::to_string(kMost / 2));
    c.ffn = 2 * ffn;
    for (uint32_t layer = 0; layer < own; ++layer) c.layer_configs[layer].ffn = ffn;
  }
  complete(c, all, values);
}

}  // namespace weft
