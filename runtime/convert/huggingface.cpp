#include "convert/huggingface.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "convert/gguf_tokenizer.h"
#include "model/parts.h"
#include "model/tensors.h"
#include "model/weights.h"

namespace weft {
namespace {

constexpr std::string_view kTableRoles[] = {"token_embd",      "token_embd_norm", "position_embd",
                                            "per_layer_table", "per_layer_proj",  "per_layer_norm"};
constexpr std::string_view kLayerRoles[] = {"attn_norm",
                                            "attn_q",
                                            "attn_k",
                                            "attn_v",
                                            "attn_qkv",
                                            "attn_q_norm",
                                            "attn_k_norm",
                                            "attn_output",
                                            "post_attention_norm",
                                            "ffn_norm",
                                            "ffn_gate_inp",
                                            "exp_probs_b",
                                            "ffn_gate_inp_shexp",
                                            "ffn_gate_shexp",
                                            "ffn_up_shexp",
                                            "ffn_down_shexp",
                                            "ffn_gate",
                                            "ffn_up",
                                            "ffn_down",
                                            "post_ffw_norm",
                                            "layer_gate",
                                            "layer_proj",
                                            "layer_post_norm",
                                            "layer_scale",
                                            "shortconv_in",
                                            "shortconv_conv",
                                            "shortconv_out",
                                            "delta_qkv",
                                            "delta_z",
                                            "delta_a",
                                            "delta_b",
                                            "delta_conv",
                                            "delta_decay",
                                            "delta_bias",
                                            "delta_norm",
                                            "delta_out",
                                            "mamba_in",
                                            "mamba_conv",
                                            "mamba_decay",
                                            "mamba_bias",
                                            "mamba_skip",
                                            "mamba_norm",
                                            "mamba_out"};
constexpr std::string_view kLastRoles[] = {"output_norm", "output"};

class Collector {
 public:
  Collector(const ModelFile& model, const Config& config, ConvertSource& to)
      : config_(config), family_(*config.traits), tensors_(model, config), to_(to) {}

  void collect() {
    for (const std::string_view role : kTableRoles) add_both(role, -1);
    for (uint32_t layer = 0; layer < config_.layers; ++layer) {
      for (const std::string_view role : kLayerRoles) add_both(role, static_cast<int>(layer));
      if (config_.layer_configs[layer].experts) add_experts(static_cast<int>(layer));
    }
    for (const std::string_view role : kLastRoles) add_both(role, -1);
    add_rope_factors();
  }

 private:
  void add_both(std::string_view role, int layer) {
    for (const char* end : {"_decay", "_bias", "_skip", "_scale"})
      if (role.ends_with(end)) return add(role, layer, "");
    const bool beside_experts = layer >= 0 && config_.layer_configs[static_cast<size_t>(layer)].experts;
    if (role.starts_with("ffn_up") && family_.mamba2) {
      if (beside_experts == role.ends_with("_shexp")) add_halves(layer, beside_experts ? "_shexp" : "");
      return;
    }
    if (role.starts_with("ffn_down") && beside_experts != role.ends_with("_shexp")) return;
    if (role == "exp_probs_b") return add(role, layer, "", "bias");
    for (const char* what : {"weight", "bias"}) add(role, layer, what);
  }

  void add(std::string_view role, int layer, const char* what) { add(role, layer, what, what); }

  // gguf_what: the end of the name there.
  void add(std::string_view role, int layer, const char* what, const char* gguf_what) {
    // In families without this norm, Llama's name for it is that of another norm.
    if (role == "ffn_norm" && config_.layer_kind.unnormed) return;
    const TensorView* tensor = tensors_.find(role, layer, what);
    if (tensor && role == "output" && config_.tied == true) {  // a second copy is not written, a differing table is
      const TensorView* table = tensors_.find("token_embd", -1, what);
      if (table && Parts::same_bytes(*tensor, *table)) return;
    }
    // A tied table under its other name.
    if (!tensor && role == "token_embd" && what == std::string_view("weight")) tensor = tensors_.find("output", -1);
    if (!tensor) return;
    ConvertTensor to = {{tensor}, tensor_name(ModelFile::Kind::gguf, family_, role, layer, gguf_what)};
    if (role == "ffn_gate_inp_shexp") to.shape = {config_.width};
    if (config_.pairs != family_.gguf_pairs && role == "attn_q") to.rotated_heads = config_.heads.heads;
    if (config_.pairs != family_.gguf_pairs && role == "attn_k") to.rotated_heads = config_.heads.kv_heads;
    if (family_.qkv_by_head && role == "attn_qkv") to.parted_heads = config_.heads.heads;
    to.transposed = family_.transposed && layer >= 0 && tensor->shape.size() == 2;
    if (to.transposed) std::ranges::reverse(to.shape);
    if (to.shape.size() == 3) to.shape.erase(to.shape.begin() + 1);  // one channel of a convolution of each by itself
    if (role.ends_with("_norm") && role != "delta_norm" && role != "mamba_norm" && std::string_view(what) == "weight")
      to.offset = config_.norm_offset;
    to.minus_exp = role.ends_with("_decay");
    // llama.cpp has a row for each head, and for each group of heads.
    if (role == "mamba_decay" || role == "mamba_skip") to.shape.push_back(1);
    if (role == "mamba_norm") {
      const auto& mixer = std::get<Mamba2Config>(config_.layer_configs[static_cast<size_t>(layer)].mixer);
      to.shape = {mixer.shape.key_heads, to.shape[0] / mixer.shape.key_heads};
    }
    if (role.starts_with("delta_")) to.tiling = tiling_of(role, layer);
    to_.tensors.push_back(std::move(to));
  }

  // A gate and what it gates, which a folder has as one matrix. end: of the roles.
  void add_halves(int layer, const std::string& end) {
    const TensorView& both = *tensors_.find("ffn_up" + end, layer);
    const uint64_t rows = both.shape[0] / 2;
    for (const uint64_t half : {0u, 1u}) {
      ConvertSource::Made& made = to_.made.emplace_back();
      made.view = rows_of(both, half * rows, rows);
      to_.tensors.push_back(
          {{&made.view},
           tensor_name(ModelFile::Kind::gguf, family_, (half == 0 ? "ffn_gate" : "ffn_up") + end, layer)});
    }
  }

  ConvertTensor::Tiling tiling_of(std::string_view role, int layer) const {
    const ops::LinearShape& s =
        std::get<GatedDeltaConfig>(config_.layer_configs[static_cast<size_t>(layer)].mixer).shape;
    const uint32_t each = s.heads / s.key_heads;
    if (each == 1 || role == "delta_norm") return {};
    if (role == "delta_qkv" || role == "delta_conv") return {2 * uint64_t{s.keys()}, s.key_heads, each, s.value_dim};
    if (role == "delta_z" || role == "delta_out") return {0, s.key_heads, each, s.value_dim, role == "delta_out"};
    return {0, s.key_heads, each, 1};
  }

  void add_experts(int layer) {
    const uint64_t ffn = config_.expert_ffn, width = config_.width;
    for (const Part& part : tensors_.expert_gate_up(layer, ffn)) {
      const bool both = part.rows != ffn;  // gates and what they gate as one
      add_stack(part, layer, width, 0, both ? "ffn_gate_exps" : part.role);
      if (both) add_stack(part, layer, width, ffn, "ffn_up_exps");
    }
    add_stack({"ffn_down_exps", width}, layer, ffn, 0, "ffn_down_exps");
  }

  // Rows from first_row on of each expert's part, up to as many as the role has.
  void add_stack(const Part& part, int layer, uint64_t cols, uint64_t first_row, std::string_view role) {
    const uint32_t count = config_.experts.count;
    const uint64_t rows = role == "ffn_down_exps" ? part.rows : config_.expert_ffn;
    std::vector<const TensorView*> stack;
    for (uint32_t i = 0; i < count; ++i) {
      ConvertSource::Made& made = to_.made.emplace_back();
      made.view = rows_of(tensors_.expert(part, layer, i, count, cols, true), first_row, rows);
      stack.push_back(&made.view);
    }
    to_.tensors.push_back(
        {std::move(stack), tensor_name(ModelFile::Kind::gguf, family_, role, layer), {count, rows, cols}});
  }

  // Adds tensors of divisors of the frequencies, for scalings without a key in GGUF.
  void add_rope_factors() {
    if (config_.ropes.empty()) return;
    const Rope& rope = config_.ropes[0];
    if (rope.scaling == Rope::Scaling::llama3 || rope.scaling == Rope::Scaling::proportional)
      add_factors("rope_freqs.weight", rope, rope.frequencies);
    if (rope.scaling != Rope::Scaling::longrope) return;
    add_factors("rope_factors_long.weight", rope, rope.long_frequencies);
    add_factors("rope_factors_short.weight", rope, rope.frequencies);
  }

  static constexpr float kStill = 1e30f;  // divisor of a frequency of 0, as llama.cpp's converter writes it

  void add_factors(const char* name, const Rope& rope, const std::vector<double>& scaled) {
    const std::vector<double> plain = plain_rope(rope.base, static_cast<uint32_t>(2 * scaled.size())).frequencies;
    ConvertSource::Made& made = to_.made.emplace_back();
    for (size_t i = 0; i < plain.size(); ++i)
      made.floats.push_back(scaled[i] > 0 ? static_cast<float>(plain[i] / scaled[i]) : kStill);
    made.view = {name, DType::f32, {plain.size()}, std::as_bytes(std::span(made.floats))};
    to_.tensors.push_back({{&made.view}, name});
  }

  const Config& config_;
  const Family& family_;
  Tensors tensors_;
  ConvertSource& to_;
};

// ---- Keys ----

void add_rope_keys(JsonValue& keys, const std::string& p, const Config& c) {
  uint32_t rotary_dim = 0;
  for (const LayerConfig& layer : c.layer_configs)
    if (const auto* attention = std::get_if<AttentionConfig>(&layer.mixer))
      rotary_dim = std::max(rotary_dim, attention->rotary_dim);
  const Rope& rope = c.ropes[0];
  keys[p + "rope.dimension_count"] =
      rotary_dim > 0 ? rotary_dim : c.heads.head_dim;  // llama.cpp's converter, without RoPE
  keys[p + "rope.freq_base"] = static_cast<float>(rope.base);
  if (c.ropes.size() > 1) keys[p + "rope.freq_base_swa"] = static_cast<float>(c.ropes[1].base);
  const std::string s = p + "rope.scaling.";
  if (rope.scaling == Rope::Scaling::linear) {
    keys[s + "type"] = "linear";
    keys[s + "factor"] = static_cast<float>(rope.factor);
  } else if (rope.scaling == Rope::Scaling::yarn) {
    keys[s + "type"] = "yarn";
    keys[s + "factor"] = static_cast<float>(rope.factor);
    keys[s + "original_context_length"] = static_cast<uint32_t>(rope.yarn.old_context);
    keys[s + "yarn_beta_fast"] = static_cast<float>(rope.yarn.fast);
    keys[s + "yarn_beta_slow"] = static_cast<float>(rope.yarn.slow);
    const double usual = yarn_magnitude(rope.factor) / yarn_magnitude(rope.factor, rope.yarn.divided_by);
    if (rope.yarn.divided_by > 0) keys[s + "yarn_log_multiplier"] = static_cast<float>(rope.yarn.divided_by);
    if (std::abs(rope.magnitude - usual) > 1e-6 * usual)
      keys[s + "yarn_attn_factor"] = static_cast<float>(rope.magnitude);
  } else if (rope.scaling == Rope::Scaling::longrope) {
    keys[s + "original_context_length"] = rope.old_context;
    keys[s + "attn_factor"] = static_cast<float>(rope.magnitude);
  }
}

void add_window_keys(JsonValue& keys, const std::string& p, const Config& c) {
  uint32_t window = 0;
  bool usual = true;  // for the family: then the pattern need not be said
  JsonValue local = JsonValue::array();
  const uint32_t every = c.traits->global_every;
  for (uint32_t i = 0; i < c.layers; ++i) {
    const auto* attention = std::get_if<AttentionConfig>(&c.layer_configs[i].mixer);
    const bool windowed = attention && attention->window > 0;
    window = std::max(window, attention ? attention->window : 0);
    usual &= windowed == (every == 0 || (i + 1) % every != 0);
    local.push_back(windowed);
  }
  // A file without the key has a window, or is an error.
  const bool needed =
      c.traits->gguf_window || c.traits->architecture == "gemma2" || c.traits->architecture == "exaone4";
  if (window > 0 || needed) keys[p + "attention.sliding_window"] = window;
  if (window == 0) return;
  if (!usual) keys[p + "attention.sliding_window_pattern"] = local;
}

// Layers without attention have no key/value heads.
void add_kv_heads_keys(JsonValue& keys, const std::string& p, const Config& c) {
  if (!c.has_mixer<ShortConvConfig>() && !c.has_mixer<Mamba2Config>()) return;
  JsonValue heads = JsonValue::array();
  for (const LayerConfig& layer : c.layer_configs) {
    const auto* convolution = std::get_if<ShortConvConfig>(&layer.mixer);
    heads.push_back(std::holds_alternative<AttentionConfig>(layer.mixer) ? c.heads.kv_heads : 0);
    if (convolution) keys[p + "shortconv.l_cache"] = convolution->taps;
  }
  keys[p + "attention.head_count_kv"] = heads;
}

void add_linear_keys(JsonValue& keys, const std::string& p, const Config& c) {
  const auto is_linear = [](const LayerConfig& layer) { return linear_shape(layer.mixer) != nullptr; };
  const auto layer = std::ranges::find_if(c.layer_configs, is_linear);
  if (layer == c.layer_configs.end()) return;
  const ops::LinearShape& s = *linear_shape(layer->mixer);
  keys[p + "ssm.conv_kernel"] = s.taps;
  keys[p + "ssm.state_size"] = s.key_dim;
  keys[p + "ssm.group_count"] = s.key_heads;
  keys[p + "ssm.time_step_rank"] = s.heads;
  keys[p + "ssm.inner_size"] = s.values();
  if (!s.delta) return;
  const auto first = std::ranges::find_if_not(c.layer_configs, is_linear);
  keys[p + "full_attention_interval"] = static_cast<uint32_t>(first - c.layer_configs.begin() + 1);
  // llama.cpp wants the rotated pairs of time, height and width, which turn alike in a text.
  const size_t pairs = c.ropes[0].frequencies.size();
  JsonValue sections = JsonValue::array();
  for (const size_t own : {(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, size_t{0}})
    sections.push_back(static_cast<uint32_t>(own));
  keys[p + "rope.dimension_sections"] = sections;
}

// Gemma 4's keys of what differs between layers.
void add_layer_keys(JsonValue& keys, const std::string& p, const Config& c) {
  if (!c.traits->gemma4) return;
  JsonValue kv_heads = JsonValue::array(), ffn = JsonValue::array(), local = JsonValue::array();
  uint32_t shared = 0;
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    const AttentionConfig& own = c.attention_of(layer);
    const ops::HeadShape& shape = c.shape_of(own);
    kv_heads.push_back(shape.kv_heads);
    ffn.push_back(c.ffn_of(layer));
    local.push_back(own.window > 0);
    shared += own.source ? 1 : 0;
    const std::string end = own.window > 0 ? "_swa" : "";
    for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"})
      keys[p + key + end] = shape.head_dim;
  }
  keys[p + "attention.head_count_kv"] = kv_heads;
  keys[p + "feed_forward_length"] = ffn;
  keys[p + "attention.sliding_window_pattern"] = local;
  keys[p + "attention.shared_kv_layers"] = shared;
  keys[p + "embedding_length_per_layer_input"] = c.layer_input;
}

void add_expert_keys(JsonValue& keys, const std::string& p, const Config& c) {
  const ops::Experts& e = c.experts;
  if (e.count == 0) return;
  keys[p + "expert_count"] = e.count;
  keys[p + "expert_used_count"] = e.used;
  // Some architectures have the experts' width as the feed-forward's.
  const bool own = c.traits->architecture != "llama" && c.traits->architecture != "olmoe" && !c.traits->multipliers;
  if (own) keys[p + "expert_feed_forward_length"] = c.expert_ffn;
  if (!own) keys[p + "feed_forward_length"] = c.expert_ffn;
  if (c.layer_kind.shared_expert != SharedExpert::none) keys[p + "expert_shared_feed_forward_length"] = c.ffn;
  if (!e.sigmoid && e.normalised && !c.traits->raw_gates) return;
  keys[p + "expert_weights_norm"] = e.normalised;
  if (!e.sigmoid) return;
  keys[p + "expert_gating_func"] = 2u;
  keys[p + "expert_weights_scale"] = e.scale;
  const auto first = std::ranges::find_if(c.layer_configs, [](const LayerConfig& layer) { return layer.experts; });
  keys[p + "leading_dense_block_count"] = static_cast<uint32_t>(first - c.layer_configs.begin());
}

// Pairs of time, rows and columns, and of none.
void add_picture_keys(JsonValue& keys, const std::string& p, const Config& c) {
  if (c.ropes.empty() || c.ropes[0].axes.empty()) return;
  JsonValue sections = JsonValue::array();
  for (const int axis : {0, 1, 2}) sections.push_back(static_cast<uint32_t>(std::ranges::count(c.ropes[0].axes, axis)));
  sections.push_back(0u);
  keys[p + "rope.dimension_sections"] = sections;
  keys[p + "n_deepstack_layers"] = c.deepstack;
}

JsonValue network_keys(const Config& c, uint32_t rows) {
  const std::string architecture(c.traits->architecture), p = architecture + ".";
  JsonValue keys = {{"general.architecture", architecture},
                    {p + "vocab_size", rows},
                    {p + "context_length", c.context},
                    {p + "embedding_length", c.width},
                    {p + "block_count", c.layers},
                    {p + "feed_forward_length", c.ffn},
                    {p + "attention.head_count", c.heads.heads},
                    {p + "attention.head_count_kv", c.heads.kv_heads},
                    {p + "attention.key_length", c.heads.head_dim},
                    {p + "attention.value_length", c.heads.head_dim}};
  const bool layer_norm = c.layer_kind.norm == ops::NormKind::layer;
  keys[p + (layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon")] = c.mixer_epsilon;
  if (c.layer_kind.parallel != c.traits->layer_kind.parallel || architecture == "gptneox" || c.traits->shares_norm)
    keys[p + "use_parallel_residual"] = c.layer_kind.parallel;
  if (c.query_growth.rate > 0) keys[p + "attention.temperature_scale"] = c.query_growth.rate;
  const bool capped = architecture == "gemma2";  // unless the file says otherwise
  if (c.attention_cap > 0 || capped) keys[p + "attn_logit_softcapping"] = c.attention_cap;
  if (c.logit_cap > 0 || capped) keys[p + "final_logit_softcapping"] = c.logit_cap;
  if (c.traits->multipliers) {
    keys[p + "attention.scale"] = c.attention_scale;
    keys[p + "embedding_scale"] = c.embedding_scale * c.residual_scale;
    keys[p + "residual_scale"] = c.residual_scale;
    keys[p + "logit_scale"] = 1 / c.logit_scale;
    keys[p + "rope.scaling.finetuned"] = !c.ropes[0].frequencies.empty();
  } else if (c.logit_scale != 1 || c.traits->gguf_multipliers) {
    keys[p + "logit_scale"] = c.logit_scale;
  }
  add_expert_keys(keys, p, c);
  if (c.layer_kind.positions == Positions::rotary) add_rope_keys(keys, p, c);
  add_picture_keys(keys, p, c);
  add_window_keys(keys, p, c);
  add_kv_heads_keys(keys, p, c);
  add_linear_keys(keys, p, c);
  add_layer_keys(keys, p, c);
  if (c.layer_kind.positions == Positions::alibi && architecture == "mpt") keys[p + "attention.max_alibi_bias"] = 8.0f;
  if (c.sentences.given)  // llama.cpp's numbers
    keys[p + "pooling_type"] = c.sentences.pooling == Pooling::mean    ? 1u
                               : c.sentences.pooling == Pooling::first ? 2u
                                                                       : 3u;
  return keys;
}

// ---- The same network, read back ----

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

bool same(const std::vector<double>& a, const std::vector<double>& b) { return std::ranges::equal(a, b, near); }

bool same_rope(const Rope& a, const Rope& b) {
  return same(a.frequencies, b.frequencies) && a.axes == b.axes && near(a.magnitude, b.magnitude) &&
         near(a.growth, b.growth) && same(a.long_frequencies, b.long_frequencies) &&
         (a.long_frequencies.empty() || a.old_context == b.old_context);
}

// The first thing in which two networks differ; empty: nothing.
std::string difference(const Config& a, const Config& b) {
  const auto differs = [](double x, double y) { return !near(x, y); };
  if (a.layer_kind.activation != b.layer_kind.activation) return "the activation";
  if (a.layer_kind.parallel != b.layer_kind.parallel) return "the order of the residual";
  if (differs(a.attention_scale, b.attention_scale)) return "the scale of the attention's scores";
  if (differs(a.embedding_scale, b.embedding_scale)) return "the scale of the embedding";
  if (differs(a.logit_scale, b.logit_scale) || differs(a.logit_cap, b.logit_cap)) return "the logits' scale or cap";
  if (differs(a.query_growth.rate, b.query_growth.rate) ||
      (a.query_growth.rate > 0 && a.query_growth.step != b.query_growth.step))
    return "the growth of queries with their position";
  if (differs(a.attention_cap, b.attention_cap)) return "the cap of the attention's scores";
  if (!std::ranges::equal(a.ropes, b.ropes, same_rope)) return "the RoPE scaling";
  if (a.sentences.given != b.sentences.given || (a.sentences.given && a.sentences.pooling != b.sentences.pooling))
    return "the pooling of its embeddings";
  if (a.deepstack != b.deepstack) return "the rows that layers add to pictures";
  if (a.layer_input != b.layer_input) return "the per-layer embeddings";
  const ops::Experts &x = a.experts, &y = b.experts;
  if (x.sigmoid != y.sigmoid || x.normalised != y.normalised || differs(x.scale, y.scale))
    return "the weights of experts";
  for (uint32_t i = 0; i < a.layers; ++i) {
    if (a.layer_configs[i].experts != b.layer_configs[i].experts) return "the experts of layer " + std::to_string(i);
    if (a.layer_configs[i].mixer.index() != b.layer_configs[i].mixer.index())
      return "the mixer of layer " + std::to_string(i);
    if (!std::holds_alternative<AttentionConfig>(a.layer_configs[i].mixer)) continue;
    const AttentionConfig &own = a.attention_of(i), &other = b.attention_of(i);
    if (own.window != other.window) return "the window of layer " + std::to_string(i);
    if (own.rotary_dim != other.rotary_dim || own.rope != other.rope)
      return "the positions of layer " + std::to_string(i);
    if (own.source != other.source) return "the cache of layer " + std::to_string(i);
    if (a.ffn_of(i) != b.ffn_of(i)) return "the feed-forward of layer " + std::to_string(i);
  }
  return {};
}

void check_read_back(const ModelFile& model, const Config& config, const ConvertSource& source) {
  ModelFile file;
  file.kind = ModelFile::Kind::gguf;
  file.path = model.path;
  file.metadata = source.keys;
  for (const ConvertSource::Made& made : source.made) {
    file.index[made.view.name] = file.tensors.size();
    file.tensors.push_back(made.view);
  }
  const std::string what = difference(config, read_config(file));
  if (what.empty()) return;
  throw Error(Code::unsupported, "GGUF's '" + std::string(config.traits->architecture) + "' cannot state " + what,
              (model.path / "config.json").string());
}

std::vector<std::string> texts_of(const JsonValue& array) {
  std::vector<std::string> texts;
  for (const JsonValue& item : array.items()) texts.push_back(item.text());
  return texts;
}

template <class T>
std::vector<T> numbers_of(const JsonValue& array) {
  std::vector<T> numbers;
  for (const JsonValue& item : array.items()) numbers.push_back(item.get<T>());
  return numbers;
}

void add_key(GgufWriter& writer, const std::string& name, const JsonValue& value) {
  if (value.is_string()) return writer.key(name, std::string_view(value.text()));
  if (value.is_boolean()) return writer.key(name, value.get<bool>());
  if (value.is_number_float()) return writer.key(name, value.get<float>());
  if (value.is_number()) return writer.key(name, value.get<uint32_t>());
  const bool empty = value.empty();
  if (empty || value[0].is_string()) return writer.key(name, texts_of(value));
  if (value[0].is_number_float()) return writer.key(name, numbers_of<float>(value));
  if (value[0].is_number()) return writer.key(name, numbers_of<int32_t>(value));
  std::string flags = le<uint32_t>(kGgufBool) + writer.length(value.size());
  for (const JsonValue& flag : value.items()) flags += le(static_cast<uint8_t>(flag.get<bool>()));
  writer.key(name, kGgufArray, flags);
}

}  // namespace

uint64_t ConvertTensor::columns() const {
  const bool sorted = rotated_heads > 0 || parted_heads > 0 || (tiling.key_heads > 0 && !tiling.columns);
  return shape.empty() || (sorted && shape.size() == 1) ? 1 : shape.back();
}

uint64_t ConvertTensor::Tiling::source(uint64_t index) const {
  if (key_heads == 0 || index < first) return index;
  const uint64_t head = (index - first) / dim;
  return first + (head % key_heads * each + head / key_heads) * dim + (index - first) % dim;
}

uint64_t ConvertTensor::source_row(uint64_t row) const {
  if (!tiling.columns && tiling.key_heads > 0) return tiling.source(row);
  if (rotated_heads > 0) {
    const uint64_t head = shape[0] / rotated_heads, within = row % head;
    return row - within + within / 2 + within % 2 * (head / 2);
  }
  if (parted_heads == 0) return row;
  const uint64_t head_dim = shape[0] / parted_heads / 3, part = row / head_dim / parted_heads;
  return ((row / head_dim % parted_heads) * 3 + part) * head_dim + row % head_dim;
}

ConvertSource gguf_of_folder(const ModelFile& model) {
  Config config = read_config(model);
  if (config.traits->architecture.empty())
    throw Error(Code::unsupported, "GGUF has no architecture for the model type '" + config.family + "'",
                (model.path / "config.json").string());
  if (config.layer_kind.sees_all || config.encoder || config.layer_kind.expert_bias)
    throw Error(Code::unsupported, "not supported yet: writing a folder of the model type '" + config.family + "'",
                (model.path / "config.json").string(), "folders of most networks of a decoder alone can be written");
  if (config.sentences.dense || config.sentences.relevance)
    throw Error(Code::unsupported, "not supported yet: writing dense layers behind the pooling, and rerankers",
                (model.path / "modules.json").string());
  check_weights(model, config);
  if (model.tokenizer.is_null())
    throw Error(Code::not_found, "the folder has no tokenizer.json", model.path.string(),
                "export the tokenizer as tokenizer.json");
  ConvertSource source;
  Collector(model, config, source).collect();
  source.keys = network_keys(config, config.vocab);
  check_read_back(model, config, source);
  std::error_code ignored;
  source.keys["general.type"] = "model";
  source.keys["general.name"] = std::filesystem::weakly_canonical(model.path, ignored).filename().string();
  source.keys.update(gguf_tokenizer(model.tokenizer, model.tokenizer_config, model.generation_config,
                                    config.traits->architecture, config.sentences.given, config.vocab,
                                    model.path.string()));
  return source;
}

void add_keys(GgufWriter& writer, const JsonValue& keys) {
  for (const JsonValue::Member* key : keys.by_name()) add_key(writer, key->name, key->value);
}

}  // namespace weft
