#include "model/config_positions.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "model/config_gemma4.h"
#include "model/config_mixers.h"

namespace weft {
namespace {

constexpr double kHuge = 1e12;
constexpr double kRopeBase = 10000;  // of GGUF files that do not say it
constexpr double kGemma3RopeBase = 1e6;

// Windows of such layers are given by both halves together, or by one (EmbeddingGemma 2). A token sees those nearer
// than the half and one.
uint32_t window_of(const Config& c, uint32_t given) {
  if (given == 0 || !c.layer_kind.sees_all) return given;
  return (c.traits->gemma4 ? given : given / 2) + 1;
}

// local: which layers have the window.
template <class Local>
void place_layers(Config& c, uint32_t window, uint32_t rotary_dim, const Local& local) {
  const uint32_t local_rope = c.ropes.size() > 1 ? 1 : 0;
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    const bool windowed = local(layer);
    const bool no_rope = (c.traits->no_rope_every > 0 && (layer + 1) % c.traits->no_rope_every == 0) ||
                         (c.traits->window_rope && window > 0 && !windowed);
    c.layer_configs.push_back(
        {AttentionConfig{windowed ? window : 0, windowed ? local_rope : 0, no_rope ? 0 : rotary_dim}});
  }
}

// first: the first layer has no window, nor every n-th after it; else the n-th, ...
bool local_by_pattern(uint32_t layer, uint32_t global_every, bool first) {
  return global_every == 0 || (first ? layer : layer + 1) % global_every != 0;
}

// The divisors of the frequencies; empty if the file has no such tensor.
std::vector<double> read_rope_factors(const ModelFile& file, const std::string& name, size_t count) {
  const TensorView* tensor = file.find(name);
  if (!tensor) return {};
  if (tensor->shape != std::vector<uint64_t>{count})
    throw Error(Code::bad_file,
                "tensor '" + name + "' has " + std::to_string(element_count(tensor->shape)) + " elements, expected " +
                    std::to_string(count),
                file.path.string());
  std::vector<float> factors(count);
  to_float(*tensor, 0, factors);
  for (size_t i = 0; i < factors.size(); ++i)
    if (!(factors[i] > 0) || !std::isfinite(factors[i]))
      throw Error(Code::bad_file,
                  "element " + std::to_string(i) + " of tensor '" + name + "' is " + number_text(factors[i]),
                  file.path.string());
  return {factors.begin(), factors.end()};
}

void scale_gguf_rope(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p) {
  Rope& rope = c.ropes[0];
  const size_t count = rope.frequencies.size();
  const std::string factor_key =
      values.either({(p + "rope.scaling.factor").c_str(), (p + "rope.scale_linear").c_str()});
  const std::string scaling = values.text(p + "rope.scaling.type", values.has(factor_key) ? "linear" : "none");
  const uint32_t old_context = values.integer(p + "rope.scaling.original_context_length", 1, kMostContext, c.context);
  const double factor = values.number(factor_key, kTiny, kHuge, 1);
  // No key has the scaling of Llama 3 and of LongRoPE: tensors hold the divisors of the frequencies.
  const std::vector<double> factors = read_rope_factors(file, "rope_freqs.weight", count),
                            few = read_rope_factors(file, "rope_factors_short.weight", count),
                            many = read_rope_factors(file, "rope_factors_long.weight", count);
  // llama.cpp's converter writes 1e30 for dimensions that do not turn.
  constexpr double kStill = 1e20;
  for (size_t i = 0; i < factors.size(); ++i)
    rope.frequencies[i] = factors[i] < kStill ? rope.frequencies[i] / factors[i] : 0;
  if (few.empty() != many.empty())
    throw Error(Code::bad_file, "only one of the tensors 'rope_factors_short.weight' and 'rope_factors_long.weight'",
                file.path.string());
  if (!few.empty()) scale_like_longrope(rope, few, many, old_context);
  if (scaling == "linear") {
    scale_linearly(rope, factor);
  } else if (scaling == "yarn") {
    if (values.number(p + "rope.scaling.yarn_ext_factor", 0, kHuge, 1) != 1)
      unsupported("not supported: a YaRN extrapolation factor other than 1", values);
    scale_like_yarn(
        rope, factor,
        {static_cast<double>(old_context), values.number(p + "rope.scaling.yarn_beta_fast", kTiny, kHuge, 32),
         values.number(p + "rope.scaling.yarn_beta_slow", kTiny, kHuge, 1), c.traits->whole_yarn});
    rope.yarn.divided_by = values.number(p + "rope.scaling.yarn_log_multiplier", 0, kHuge, 0);
    // The converters of llama.cpp write config.json's attention_factor, which stands for the whole magnitude; older
    // ones wrote it as attn_factor, which elsewhere multiplies the magnitude.
    const double usual = yarn_magnitude(factor) / yarn_magnitude(factor, rope.yarn.divided_by);
    rope.magnitude = values.number(p + "rope.scaling.yarn_attn_factor", kTiny, kHuge, usual);
    const double own = values.number(p + "rope.scaling.attn_factor", kTiny, kHuge, 1);
    if (std::abs(own - usual) < 1e-4 * usual) return;
  } else if (scaling != "none" && (scaling != "longrope" || few.empty())) {
    unsupported("not supported: RoPE scaling '" + scaling + "'", values);
  }
  rope.magnitude *= values.number(p + "rope.scaling.attn_factor", kTiny, kHuge, 1);
}

uint32_t read_gguf_window(const Config& c, const JsonObject& values, const std::string& key) {
  const bool usual = c.family == "gemma2" || (c.family == "exaone4" && c.layers == 64);  // the 32B model
  const uint32_t given = c.traits->gguf_window ? values.integer(key, 0, kMostContext)
                                               : values.integer(key, 0, kMostContext, usual ? 4096 : 0);
  return window_of(c, given);
}

// Files that say how queries grow are of families with such queries, or are not read.
void set_query_growth(Config& c, const JsonObject& values, const std::string& key, uint32_t step) {
  c.query_growth = {values.real(key, 0, kHuge, 0), step};
  if (c.query_growth.rate > 0 && !c.traits->query_growth)
    unsupported("not supported: '" + key + "' in this family", values);
}

// ---- Hugging Face ----

std::vector<double> read_factors(const JsonObject& v, const std::string& key, size_t count) {
  const std::string expected = std::to_string(count) + " numbers above 0";
  if (!v.has(key)) throw Error(Code::bad_file, "the value '" + key + "' is missing", v.place());
  const JsonValue& factors = v.at(key);
  const auto right = [](const JsonValue& factor) {
    return factor.is_number() && factor.get<double>() >= kTiny && factor.get<double>() <= kHuge;
  };
  if (!factors.is_array() || factors.size() != count || !std::ranges::all_of(factors.items(), right))
    v.refuse(key, expected);
  std::vector<double> values;
  for (const JsonValue& factor : factors.items()) values.push_back(factor.get<double>());
  return values;
}

// config: the whole config.json, for the lengths of contexts. v: the part of it that describes the scaling.
void scale_by_context(Rope& rope, const std::string& type, const JsonObject& v, const JsonObject& config) {
  constexpr const char* kOld = "original_max_position_embeddings";
  const uint32_t context = config.integer("max_position_embeddings", 1, kMostContext, 2048);
  const uint32_t old_context = v.integer(kOld, 1, kMostContext, config.integer(kOld, 1, kMostContext, context));
  const double factor = v.number("factor", kTiny, kHuge, static_cast<double>(context) / old_context);
  if (type == "dynamic") {
    if (!v.has("factor")) throw Error(Code::bad_file, "the value 'factor' is missing", v.place());
    if (factor < 1) v.refuse("factor", "at least 1");
    scale_dynamically(rope, factor, context);
  } else if (type == "yarn") {
    scale_like_yarn(rope, factor,
                    {static_cast<double>(old_context), v.number("beta_fast", kTiny, kHuge, 32),
                     v.number("beta_slow", kTiny, kHuge, 1), v.flag("truncate", true)});
    const double k = v.number("mscale", 0, kHuge, 0), k_all = v.number("mscale_all_dim", 0, kHuge, 0);
    const bool both = k > 0 && k_all > 0;
    const double usual = both ? yarn_magnitude(factor, k) / yarn_magnitude(factor, k_all) : yarn_magnitude(factor);
    if (both) rope.yarn.divided_by = k_all;
    rope.magnitude = v.number("attention_factor", kTiny, kHuge, usual);
  } else {
    const size_t count = rope.frequencies.size();
    scale_like_longrope(rope, read_factors(v, "short_factor", count), read_factors(v, "long_factor", count),
                        old_context);
    const double usual = factor <= 1 || old_context == 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(old_context));
    rope.magnitude = v.number("attention_factor", kTiny, kHuge, usual);
  }
}

// v: rope_parameters, or those of one layer type, or the older rope_scaling.
Rope read_rope(const JsonObject& v, const JsonObject& config, double base, uint32_t rotary_dim) {
  Rope rope = plain_rope(v.number("rope_theta", kTiny, kHuge, base), rotary_dim);
  const std::string type = v.text(v.either({"rope_type", "type"}), "default");
  if (type == "dynamic" && v.has("alpha") && config.text("model_type", "") == "hunyuan_v1_dense") {
    const double d = rotary_dim;  // the base grows once and for all
    return plain_rope(rope.base * std::pow(v.number("alpha", kTiny, kHuge), d / (d - 2)), rotary_dim);
  }
  if (type == "linear") {
    scale_linearly(rope, v.number("factor", kTiny, kHuge));
  } else if (type == "llama3") {
    const Llama3Scaling scaling = {v.number("factor", kTiny, kHuge), v.number("low_freq_factor", kTiny, kHuge),
                                   v.number("high_freq_factor", kTiny, kHuge),
                                   v.number("original_max_position_embeddings", 1, kHuge)};
    if (scaling.high_factor <= scaling.low_factor) v.refuse("high_freq_factor", "more than low_freq_factor");
    scale_like_llama3(rope, scaling);
  } else if (type == "proportional") {
    scale_proportionally(rope, v.number("partial_rotary_factor", 0, 1, 1));
    for (double& frequency : rope.frequencies) frequency /= v.number("factor", kTiny, kHuge, 1);
  } else if (type == "dynamic" || type == "yarn" || type == "longrope" || type == "su") {  // su: Phi-3's first files
    scale_by_context(rope, type, v, config);
  } else if (type != "default") {
    throw Error(Code::unsupported, "not supported: RoPE type '" + type + "'", v.place(),
                "Weft runs default, linear, llama3, dynamic, yarn, longrope, proportional");
  }
  return rope;
}

void read_query_growth(Config& c, const JsonObject& rope) {
  if (const char* const beta = "llama_4_scaling_beta"; rope.has(beta))
    set_query_growth(c, rope, beta, rope.integer("original_max_position_embeddings", 1, kMostContext, c.context));
}

// True if each member of an object stands in the other, too.
bool says_all(const JsonValue& object, const JsonValue& members) {
  if (!object.is_object() || !members.is_object()) return false;
  return std::ranges::all_of(members.members(), [&](const JsonValue::Member& member) {
    const JsonValue* const own = object.find(member.name == "type" ? "rope_type" : member.name);
    return own && *own == member.value;
  });
}

// SmolLM3's layers without positions: a list with 0 for them, or each n-th.
void read_unrotated_layers(Config& c, const JsonObject& values, uint32_t rotary_dim) {
  const uint32_t every = c.traits->no_rope_every;
  const bool listed = values.has("no_rope_layers");
  if (every == 0 && !listed) return;
  const uint32_t interval = values.integer("no_rope_layer_interval", 1, kMost, std::max(every, 1u));
  const JsonValue* const list = listed ? &values.at("no_rope_layers") : nullptr;
  if (list && !(list->is_array() && list->size() == c.layers))
    values.refuse("no_rope_layers", "an array of " + std::to_string(c.layers));
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    const bool rotates = list ? !((*list)[layer] == 0) : (layer + 1) % interval != 0;
    if (!rotates || every > 0)
      std::get<AttentionConfig>(c.layer_configs[layer].mixer).rotary_dim = rotates ? rotary_dim : 0;
  }
}

// global_dim: rotary_dim of layers without a window.
void read_ropes(Config& c, const JsonObject& values, uint32_t rotary_dim, uint32_t global_dim) {
  const Family& family = *c.traits;
  const double base =
      values.number(values.either({"rope_theta", "rotary_emb_base", "global_rope_theta"}), kTiny, kHuge, kRopeBase);
  const double local_base =
      values.number(values.either({"rope_local_base_freq", "local_rope_theta"}), kTiny, kHuge, family.local_rope_base);
  if (values.is_given("rope_parameters") && values.is_given("rope_scaling") &&
      !says_all(values.at("rope_parameters"), values.at("rope_scaling")))
    unsupported("not supported: 'rope_scaling' beside 'rope_parameters' that say something else", values);
  const std::string key = values.either({"rope_parameters", "rope_scaling"});  // the first: newer Transformers
  if (values.has(key) && key == "rope_parameters") {
    const JsonObject rope = values.object(key);
    if (rope.has("full_attention")) {
      c.ropes.push_back(read_rope(rope.object("full_attention"), values, base, global_dim));
      if (rope.has("sliding_attention"))
        c.ropes.push_back(read_rope(rope.object("sliding_attention"), values, local_base, rotary_dim));
      if (const char* const beta = "llama_4_scaling_beta"; rope.object("full_attention").has(beta))
        unsupported("not supported: '" + std::string(beta) + "' for some layers", values);
      return;
    }
    c.ropes.push_back(read_rope(rope, values, base, rotary_dim));
    read_query_growth(c, rope);
  } else if (values.has(key)) {
    c.ropes.push_back(read_rope(values.object(key), values, base, rotary_dim));
    read_query_growth(c, values.object(key));
  } else {
    c.ropes.push_back(plain_rope(base, rotary_dim));
  }
  if (local_base > 0 || (family.local_plain && values.has("sliding_window")))
    c.ropes.push_back(plain_rope(local_base > 0 ? local_base : base, rotary_dim));
}

uint32_t read_rotary_dim(const Config& c, const JsonObject& values) {
  if (c.layer_kind.positions != Positions::rotary) return 0;
  if (c.traits->mamba2 && values.text("position_embedding_type", "none") != "rope") return 0;
  double share = values.number(values.either({"partial_rotary_factor", "rotary_pct", "rotary_emb_fraction"}), 0, 1, 1);
  if (values.has("rope_parameters"))
    share = values.object("rope_parameters").number("partial_rotary_factor", 0, 1, share);
  return values.integer("rotary_dim", 1, 4096, static_cast<uint32_t>(c.heads.head_dim * share));
}

}  // namespace

void read_gguf_positions(Config& c, const ModelFile& file, const JsonObject& values, const std::string& p) {
  const Family& family = *c.traits;
  const bool rotates = c.layer_kind.positions == Positions::rotary &&
                       (!c.traits->multipliers || values.flag(p + "rope.scaling.finetuned", true));
  const uint32_t rotary_dim = !rotates ? 0 : values.integer(p + "rope.dimension_count", 1, 4096, c.heads.head_dim);
  // Early files of Gemma 3 by Ollama have other names, or none.
  const auto either = [&](const std::string& key, const std::string& other) { return values.has(key) ? key : other; };
  const std::string base = either(p + "rope.freq_base", p + "rope.global.freq_base"),
                    local_base = either(p + "rope.freq_base_swa", p + "rope.local.freq_base");
  c.ropes.push_back(
      plain_rope(values.number(base, kTiny, kHuge, c.family == "gemma3" ? kGemma3RopeBase : kRopeBase), rotary_dim));
  scale_gguf_rope(c, file, values, p);
  set_query_growth(c, values, p + "attention.temperature_scale",
                   values.integer(p + "rope.scaling.original_context_length", 1, kMostContext, c.context));
  if (family.local_rope_base > 0)
    c.ropes.push_back(plain_rope(values.number(local_base, kTiny, kHuge, family.local_rope_base), rotary_dim));
  else if (family.local_plain && values.has(p + "attention.sliding_window"))
    c.ropes.push_back(plain_rope(values.number(p + "rope.freq_base_swa", kTiny, kHuge, c.ropes[0].base), rotary_dim));
  const uint32_t window = read_gguf_window(c, values, p + "attention.sliding_window");
  if (window == 0) return place_layers(c, 0, rotary_dim, [](uint32_t) { return false; });
  const std::string key = p + "attention.sliding_window_pattern";
  if (values.has(key) && values.at(key).is_array()) {
    const JsonValue& local = values.at(key);  // a flag for each layer
    if (local.size() != c.layers) values.refuse(key, std::to_string(c.layers) + " flags");
    return place_layers(c, window, rotary_dim, [&](uint32_t layer) {
      if (!local[layer].is_boolean()) values.refuse(key, std::to_string(c.layers) + " flags");
      return local[layer].get<bool>();
    });
  }
  const uint32_t global_every = values.integer(key, 0, 4096, family.global_every);
  place_layers(c, window, rotary_dim,
               [&](uint32_t layer) { return local_by_pattern(layer, global_every, family.global_first); });
}

void read_huggingface_positions(Config& c, const JsonObject& values) {
  const uint32_t rotary_dim = read_rotary_dim(c, values);
  read_ropes(c, values, rotary_dim, c.traits->gemma4 ? read_gemma4_global(c, values).head_dim : rotary_dim);
  const bool used = values.flag("use_sliding_window", true);
  const std::string window_key = values.either({"local_attention", "sliding_window"});
  const uint32_t window = used ? window_of(c, values.integer(window_key, 0, kMostContext, 0)) : 0;
  const auto array = [&](const std::string& key) -> const JsonValue& {
    const bool right = values.at(key).is_array() && values.at(key).size() == c.layers;
    if (!right) values.refuse(key, "an array of " + std::to_string(c.layers));
    return values.at(key);
  };
  if (const std::string key = values.either({"layer_types", "layers_block_type"}); values.has(key)) {
    const JsonValue& types = array(key);
    for (const JsonValue& type : types.items())
      if (type != "full_attention" && type != "sliding_attention" && !(type == "conv" && c.traits->short_conv) &&
          !(type == "linear_attention" && (c.traits->gated_delta || c.traits->mamba2)) &&
          !((type == "mamba" || type == "attention") && c.traits->mamba2))
        unsupported("not supported: layer type " + type.dump(), values);
    place_layers(c, window, rotary_dim, [&](uint32_t layer) { return types[layer] == "sliding_attention"; });
  } else if (c.traits->lfm3) {
    place_layers(c, window, rotary_dim, [](uint32_t layer) { return layer > 0 && layer % 4 == 0; });
  } else {
    const std::string every =
        values.either({"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"});
    const uint32_t global_every = values.integer(every, 0, 4096, c.traits->global_every);
    if (window > 0 && c.family == "qwen2_moe")
      unsupported("not supported: windows of this family without 'layer_types'", values);
    const uint32_t first_local =
        values.has("use_sliding_window") ? values.integer("max_window_layers", 0, kMost, 0) : 0;
    place_layers(c, window, rotary_dim, [&](uint32_t layer) {
      return layer >= first_local && local_by_pattern(layer, global_every, c.traits->global_first);
    });
  }
  read_unrotated_layers(c, values, rotary_dim);
}

}  // namespace weft
