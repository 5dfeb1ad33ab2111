#include "model/config.h"

#include <cmath>

#include "base/error.h"

namespace weft {
namespace {

using nlohmann::json;

// Checked access to one object's values; errors name the file and the key.
class Values {
 public:
  Values(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object_.is_object()) throw Error(Code::bad_file, "the model's description is no JSON object", place_);
  }

  bool has(const std::string& key) const { return object_.contains(key) && !object_.at(key).is_null(); }
  const json& raw(const std::string& key) const { return object_.at(key); }
  const std::string& place() const { return place_; }

  uint32_t integer(const std::string& key, uint32_t least, uint32_t most) const {
    const json& value = need(key);
    const bool whole = value.is_number_integer() && (value.is_number_unsigned() || value.get<int64_t>() >= 0);
    if (!whole || value.get<uint64_t>() < least || value.get<uint64_t>() > most)
      refuse(key, value, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<uint32_t>(value.get<uint64_t>());
  }
  uint32_t integer(const std::string& key, uint32_t least, uint32_t most, uint32_t fallback) const {
    return has(key) ? integer(key, least, most) : fallback;
  }
  double number(const std::string& key, double least, double most, double fallback) const {
    if (!has(key)) return fallback;
    const json& value = object_.at(key);
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
      refuse(key, value, "a number from " + json(least).dump() + " to " + json(most).dump());
    return value.get<double>();
  }
  std::string text(const std::string& key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    if (!object_.at(key).is_string()) refuse(key, object_.at(key), "a text");
    return object_.at(key).get<std::string>();
  }
  bool flag(const std::string& key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!object_.at(key).is_boolean()) refuse(key, object_.at(key), "true or false");
    return object_.at(key).get<bool>();
  }

 private:
  const json& need(const std::string& key) const {
    if (!has(key)) throw Error(Code::bad_file, "the value '" + key + "' is missing", place_);
    return object_.at(key);
  }
  [[noreturn]] void refuse(const std::string& key, const json& value, const std::string& expected) const {
    std::string shown = value.dump(-1, ' ', false, json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 60) + "...";
    throw Error(Code::bad_file, "'" + key + "' is " + shown + ", expected " + expected, place_);
  }
  const json& object_;
  std::string place_;
};

constexpr uint32_t kMost = 1u << 20;  // of any dimension: far above every model, far below overflow
constexpr uint32_t kMostContext = 1u << 24;
constexpr double kTiny = 1e-12;

[[noreturn]] void unsupported(const std::string& what, const std::string& place) {
  throw Error(Code::unsupported, what, place, "Weft runs models of the Llama family so far");
}

Config from_gguf(const Values& values) {
  Config config;
  config.family = values.text("general.architecture", "");
  if (config.family != "llama") unsupported("not supported yet: architecture '" + config.family + "'", values.place());
  const std::string p = "llama.";
  config.width = values.integer(p + "embedding_length", 1, kMost);
  config.layers = values.integer(p + "block_count", 1, 4096);
  config.ffn = values.integer(p + "feed_forward_length", 1, kMost);
  config.context = values.integer(p + "context_length", 1, kMostContext);
  config.heads.heads = values.integer(p + "attention.head_count", 1, 4096);
  config.heads.kv_heads = values.integer(p + "attention.head_count_kv", 1, 4096, config.heads.heads);
  config.heads.head_dim = values.integer(p + "attention.key_length", 1, 4096, config.width / config.heads.heads);
  if (values.integer(p + "attention.value_length", 1, 4096, config.heads.head_dim) != config.heads.head_dim)
    unsupported("not supported: keys and values of different lengths", values.place());
  config.rotary_dim = values.integer(p + "rope.dimension_count", 1, 4096, config.heads.head_dim);
  config.epsilon = static_cast<float>(values.number(p + "attention.layer_norm_rms_epsilon", 0, 1, 1e-5));
  config.rope_theta = values.number(p + "rope.freq_base", kTiny, 1e12, 10000);
  config.pairs = ops::Pairs::adjacent;
  if (const std::string scaling = values.text(p + "rope.scaling.type", "none"); scaling != "none")
    unsupported("not supported yet: RoPE scaling '" + scaling + "'", values.place());
  if (values.integer(p + "expert_count", 0, kMost, 0) > 0)
    unsupported("not supported yet: mixture of experts", values.place());
  return config;
}

Config from_huggingface(const Values& values) {
  Config config;
  config.family = values.text("model_type", "");
  if (config.family != "llama") unsupported("not supported yet: model type '" + config.family + "'", values.place());
  config.width = values.integer("hidden_size", 1, kMost);
  config.layers = values.integer("num_hidden_layers", 1, 4096);
  config.ffn = values.integer("intermediate_size", 1, kMost);
  config.context = values.integer("max_position_embeddings", 1, kMostContext, 2048);
  config.heads.heads = values.integer("num_attention_heads", 1, 4096);
  config.heads.kv_heads = values.integer("num_key_value_heads", 1, 4096, config.heads.heads);
  config.heads.head_dim = values.integer("head_dim", 1, 4096, config.width / config.heads.heads);
  config.rotary_dim = config.heads.head_dim;
  config.epsilon = static_cast<float>(values.number("rms_norm_eps", 0, 1, 1e-6));
  config.rope_theta = values.number("rope_theta", kTiny, 1e12, 10000);
  if (values.has("rope_scaling")) unsupported("not supported yet: 'rope_scaling'", values.place());
  if (values.has("rope_parameters")) {  // where newer Transformers keep the base
    const Values rope(values.raw("rope_parameters"), values.place() + ", rope_parameters");
    if (const std::string type = rope.text("rope_type", "default"); type != "default")
      unsupported("not supported yet: RoPE type '" + type + "'", values.place());
    config.rope_theta = rope.number("rope_theta", kTiny, 1e12, config.rope_theta);
  }
  if (const std::string act = values.text("hidden_act", "silu"); act != "silu")
    unsupported("not supported: hidden_act '" + act + "' in a Llama model", values.place());
  config.tied = values.flag("tie_word_embeddings", false);
  for (const char* bias : {"attention_bias", "mlp_bias"})
    if (values.flag(bias, false)) unsupported("not supported yet: '" + std::string(bias) + "'", values.place());
  return config;
}

}  // namespace

std::string tensor_name(ModelFile::Kind kind, std::string_view role, int layer) {
  if (kind == ModelFile::Kind::gguf)
    return (layer < 0 ? "" : "blk." + std::to_string(layer) + ".") + std::string(role) + ".weight";
  static constexpr std::pair<std::string_view, std::string_view> names[] = {{"token_embd", "model.embed_tokens"},
                                                                            {"output_norm", "model.norm"},
                                                                            {"output", "lm_head"},
                                                                            {"attn_norm", "input_layernorm"},
                                                                            {"attn_q", "self_attn.q_proj"},
                                                                            {"attn_k", "self_attn.k_proj"},
                                                                            {"attn_v", "self_attn.v_proj"},
                                                                            {"attn_output", "self_attn.o_proj"},
                                                                            {"ffn_norm", "post_attention_layernorm"},
                                                                            {"ffn_gate", "mlp.gate_proj"},
                                                                            {"ffn_up", "mlp.up_proj"},
                                                                            {"ffn_down", "mlp.down_proj"}};
  for (const auto& [gguf, huggingface] : names)
    if (gguf == role)
      return (layer < 0 ? "" : "model.layers." + std::to_string(layer) + ".") + std::string(huggingface) + ".weight";
  throw Error(Code::internal, "no tensor has the role '" + std::string(role) + "'", "tensor_name");
}

Config read_config(const ModelFile& file) {
  const bool gguf = file.kind == ModelFile::Kind::gguf;
  const Values values(file.metadata, gguf ? file.path.string() : (file.path / "config.json").string());
  Config config = gguf ? from_gguf(values) : from_huggingface(values);
  const ops::HeadShape& heads = config.heads;
  const auto contradict = [&](const std::string& what) { throw Error(Code::bad_file, what, values.place()); };
  if (heads.kv_heads > heads.heads || heads.heads % heads.kv_heads != 0)
    contradict(std::to_string(heads.heads) + " heads cannot share " + std::to_string(heads.kv_heads) +
               " key/value heads evenly");
  if (heads.head_dim == 0 || heads.head_dim % 2 != 0 || heads.head_dim > 256)
    throw Error(Code::unsupported,
                "the head dimension is " + std::to_string(heads.head_dim) + ", supported are even ones up to 256",
                values.place());
  if (config.rotary_dim % 2 != 0 || config.rotary_dim > heads.head_dim)
    contradict("the rotary dimension is " + std::to_string(config.rotary_dim) + ", the head dimension " +
               std::to_string(heads.head_dim));
  return config;
}

}  // namespace weft
