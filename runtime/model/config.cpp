#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "base/json_object.h"
#include "base/number.h"
#include "format/huggingface.h"
#include "format/json.h"
#include "model/config_experts.h"
#include "model/config_gemma4.h"
#include "model/config_mixers.h"
#include "model/config_pictures.h"
#include "model/config_positions.h"
#include "model/config_whisper.h"
#include "model/family_defaults.h"
#include "model/fingerprint.h"

namespace weft {
namespace {

using ops::Activation;

constexpr uint32_t kMostBuckets = 4096;
constexpr uint32_t kT5Farthest = 128;  // whose distance has a bias of its own: every T5's, and in no key of GGUF

// Begins a config with the settings of the family, the same for both kinds of files.
Config begin(const std::string& name, const Family& family) {
  Config c;
  c.family = name;
  c.traits = &family;
  c.layer_kind = c.traits->layer_kind;
  return c;
}

// A bias is added if the family has one, or the file has one in its first layer. Then every layer must have it.
void find_biases(Config& c, const ModelFile& file) {
  const auto there = [&](std::initializer_list<const char*> roles) {
    for (const char* role : roles)
      if (file.find(tensor_name(file.kind, *c.traits, role, 0, "bias"))) return true;
    return false;
  };
  c.layer_kind.qkv_bias |= there({"attn_qkv", "attn_q"});
  c.layer_kind.out_bias |= there({"attn_output"});
  c.layer_kind.ffn_bias |= there({"ffn_up", "ffn_down"});
}

void read_parallel(Config& c, const JsonObject& values, const std::string& key) {
  c.layer_kind.parallel = values.flag(key, c.layer_kind.parallel);
  if (c.traits->shares_norm) c.layer_kind.shared_norm = c.layer_kind.parallel;
}

// A decoder's layers whose tokens see later ones too.
void see_both_ways(Config& c, const JsonObject& values) {
  if (c.traits->encoder || c.traits->gated_delta || c.traits->mamba2 || c.traits->short_conv || c.traits->gemma4 ||
      c.layer_kind.positions != Positions::rotary)
    unsupported("not supported: tokens of this family that see later ones", values);
  c.layer_kind.sees_all = true;
}

// The encoder of an encoder-decoder, from the decoder's description.
Config& add_encoder(Config& c, uint32_t layers) {
  auto encoder = std::make_shared<Config>(c);
  encoder->traits = c.traits->encoder;
  encoder->layer_kind = c.traits->encoder->layer_kind;
  encoder->layer_kind.gated = c.layer_kind.gated;
  encoder->layer_kind.activation = c.layer_kind.activation;
  encoder->layers = layers;
  encoder->layer_configs.assign(layers, LayerConfig());
  encoder->logit_scale = 1;
  c.encoder = encoder;
  return *encoder;
}

// T5 does not scale its scores. It scales the decoder's last states if the output table is the embedding.
void finish_t5(Config& c, bool scale_states, uint32_t encoder_layers) {
  c.attention_scale = 1;
  if (scale_states) c.logit_scale = 1 / std::sqrt(static_cast<float>(c.width));
  add_encoder(c, encoder_layers);
}

// ---- GGUF ----

void read_gguf_t5(Config& c, const ModelFile& file, const JsonObject& values) {
  const uint32_t layers = c.layers;
  c.layers = values.integer("t5.decoder_block_count", 1, kMostLayers, layers);
  c.layer_configs.resize(c.layers);
  c.buckets = {values.integer("t5.attention.relative_buckets_count", 4, kMostBuckets), kT5Farthest};
  c.start_token = values.integer("t5.decoder_start_token_id", 0, UINT32_MAX, 0);
  c.layer_kind.gated = file.find(tensor_name(file.kind, *c.traits, "ffn_gate", 0)) != nullptr;
  if (c.layer_kind.gated) c.layer_kind.activation = Activation::gelu_tanh;  // as llama.cpp takes for granted
  finish_t5(c, !file.find("output.weight"), layers);
}

float read_multiplier(const Config& c, const JsonObject& values, const std::string& key) {
  const double own = c.traits->gguf_multipliers ? values.number(key, kTiny, 1e6) : values.number(key, kTiny, 1e6, 1);
  return static_cast<float>(own);
}

Activation activation_named(const std::string& name, const JsonObject& values) {
  if (name == "relu") return Activation::relu;
  if (name == "relu2") return Activation::relu_squared;
  if (name == "silu" || name == "swish" || name == "swiglu") return Activation::silu;
  if (name == "gelu") return Activation::gelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") return Activation::gelu_tanh;
  unsupported("not supported: activation '" + name + "'", values);
}

// Where a key may be missing, llama.cpp's loader has the value too.
Config from_gguf(const ModelFile& file, const JsonObject& values) {
  const std::string name = values.text("general.architecture", "");
  Config c = begin(name, find_family(file.kind, name, values.place()));
  const std::string p = c.family + ".";
  c.width = values.integer(p + "embedding_length", 1, kMost);
  c.layers = values.integer(p + "block_count", 1, 4096);
  if (const std::string key = p + "nextn_predict_layers"; c.traits->gated_delta && values.has(key))
    c.layers -= c.further_layers = values.integer(key, 0, c.layers - 1);
  const std::string ffn_key = p + "feed_forward_length";  // without it all feed-forwards are experts
  const std::vector<uint32_t> ffn = read_each(values, values.has(ffn_key) ? ffn_key : p + "expert_feed_forward_length",
                                              c.layers + c.further_layers, kMost);
  c.ffn = *std::ranges::max_element(ffn);
  c.context = values.integer(p + "context_length", 1, kMostContext);
  c.heads.heads = values.integer(p + "attention.head_count", 1, 4096);
  const std::vector<uint32_t> kv_heads = read_kv_heads(c, values, p);
  c.heads.kv_heads = *std::ranges::max_element(kv_heads);
  c.heads.head_dim = values.integer(p + "attention.key_length", 1, 4096, c.width / c.heads.heads);
  if (values.integer(p + "attention.value_length", 1, 4096, c.heads.head_dim) != c.heads.head_dim)
    unsupported("not supported: keys and values of different lengths", values);
  const bool layer_norm = c.layer_kind.norm == ops::NormKind::layer;
  c.epsilon = static_cast<float>(
      values.number(p + (layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"), 0, 1));
  c.pairs = c.traits->gguf_pairs;
  // llama.cpp's converter reorders the rows of queries and keys of GLM-4.1V and 4.6V, whose positions have sections.
  if (c.family == "glm4" && values.has(p + "rope.dimension_sections")) c.pairs = ops::Pairs::halves;
  read_parallel(c, values, p + "use_parallel_residual");
  // llama.cpp's converter writes true for StableLM if config.json says nothing, which means false.
  if (c.traits->shares_norm && file.find(tensor_name(file.kind, *c.traits, "ffn_norm", 0)))
    c.layer_kind.parallel = c.layer_kind.shared_norm = false;
  if (const auto activation = values.find_text(p + "hidden_activation"))
    c.layer_kind.activation = activation_named(*activation, values);
  c.attention_cap = values.real(p + "attn_logit_softcapping", 0, 1e6, c.family == "gemma2" ? 50 : 0);
  c.logit_cap = values.real(p + "final_logit_softcapping", 0, 1e6, c.family == "gemma2" ? 30 : 0);
  // Ollama's early files say 30, but Gemma 3 has none.
  if (c.family == "gemma3" && values.has(p + "rope.global.freq_base")) c.logit_cap = 0;
  c.logit_scale = read_multiplier(c, values, p + "logit_scale");
  if (c.traits->multipliers) {
    c.logit_scale = 1 / c.logit_scale;  // these files have the divisor
    c.embedding_scale = read_multiplier(c, values, p + "embedding_scale");
    c.residual_scale = read_multiplier(c, values, p + "residual_scale");
    if (c.traits->gguf_multipliers) read_multiplier(c, values, p + "attention.scale");
  }
  // The files lack Gemma's query_pre_attn_scalar. It is the head dimension, except in the 27B models of Gemma 2 and 3;
  // these are known by their number of layers.
  const bool gemma_27b = (c.family == "gemma2" && c.layers == 46) || (c.family == "gemma3" && c.layers == 62);
  const uint32_t per_head = gemma_27b ? c.width / c.heads.heads : c.heads.head_dim;
  c.attention_scale = values.real(p + "attention.scale", 0, 1e6, 1 / std::sqrt(static_cast<double>(per_head)));
  for (const char* key : {"attention.clamp_kqv", "attention.value_scale"})
    if (values.number(p + key, 0, 1e6, 0) > 0) unsupported("not supported: '" + p + key + "'", values);
  if (c.layer_kind.positions == Positions::alibi && values.number(p + "attention.max_alibi_bias", 0, 1e6, 8) != 8)
    unsupported("not supported: '" + p + "attention.max_alibi_bias' other than 8", values);
  if (!c.traits->experts && values.integer(p + "expert_count", 0, ops::kMostExperts, 0) > 0)
    unsupported("not supported: experts in this family", values);
  if (!c.layer_kind.sees_all && !values.flag(p + "attention.causal", true)) see_both_ways(c, values);
  c.sentences = read_gguf_sentence_config(file, c.family, !c.layer_kind.sees_all, c.width);
  read_gguf_positions(c, file, values, p);
  if (c.layer_kind.positions == Positions::bucketed) read_gguf_t5(c, file, values);
  read_gguf_mixers(c, file, values, p, kv_heads);
  const bool same = std::ranges::all_of(ffn, [&](uint32_t own) { return own == c.ffn; });
  read_gguf_experts(c, file, values, p);
  if (!same && (c.experts.count > 0 || c.encoder))
    unsupported("not supported: feed-forwards of different widths in this family", values);
  for (uint32_t layer = 0; layer < c.layers && !same; ++layer) c.layer_configs[layer].ffn = ffn[layer];
  c.head = read_output_head(
      values, p, {c.width, c.logit_cap != 0 || c.logit_scale != 1, c.layer_kind.sees_all || c.layer_kind.sees_source});
  read_gguf_pictures(c, values);
  return c;
}

// ---- Hugging Face ----

Activation read_activation(const Config& c, const JsonObject& values) {
  const std::string key = values.either({"hidden_activation", "hidden_act", "activation_function", "activation"});
  if (!values.has(key)) return c.layer_kind.activation;
  const Activation activation = activation_named(values.text(key, ""), values);
  // gpt-oss's files say "silu"; the rest is in its code alone.
  if (c.layer_kind.activation == Activation::clamped && activation == Activation::silu) return Activation::clamped;
  // Gemma's first files say "gelu", but mean the approximation, which Transformers takes.
  return c.traits->gemma && activation == Activation::gelu ? Activation::gelu_tanh : activation;
}

void read_huggingface_t5(Config& c, const JsonObject& values) {
  const uint32_t layers = c.layers;
  c.layers = values.integer("num_decoder_layers", 1, kMostLayers, layers);
  c.layer_configs.resize(c.layers);
  c.buckets.count = values.integer("relative_attention_num_buckets", 4, kMostBuckets, 32);
  c.buckets.farthest = values.integer("relative_attention_max_distance", 4, kMostBuckets, kT5Farthest);
  const std::string inner = values.text("feed_forward_proj", "relu");
  c.layer_kind.gated = inner.starts_with("gated-");
  // T5 1.1's "gelu" is the approximation.
  c.layer_kind.activation = inner == "gated-gelu" ? Activation::gelu_tanh
                                                  : activation_named(inner.substr(c.layer_kind.gated ? 6 : 0), values);
  // Files of Transformers 5 say that the table is tied even if they have another output table; then that one is used.
  const bool tied = values.flag("tie_word_embeddings", true);
  c.tied = std::nullopt;
  finish_t5(c, values.flag("scale_decoder_outputs", tied), layers);
}

void read_bart(Config& c, const JsonObject& values) {
  Config& encoder = add_encoder(c, values.integer("encoder_layers", 1, kMostLayers));
  const uint32_t heads = values.integer("encoder_attention_heads", 1, 4096);
  encoder.ffn = values.integer("encoder_ffn_dim", 1, kMost);
  encoder.heads = {heads, heads, c.width / heads};
  encoder.attention_scale = static_cast<float>(1 / std::sqrt(std::max(encoder.heads.head_dim, 1u)));
}

// The token that the decoder starts from. Files of Transformers 5 have it in generation_config.json.
uint32_t read_start_token(const ModelFile& file, const JsonObject& values) {
  const uint32_t pad = values.integer("pad_token_id", 0, UINT32_MAX, 0);
  const std::string key = "decoder_start_token_id";
  const uint32_t own = values.integer(key, 0, UINT32_MAX, pad);
  if (values.is_given(key) || file.generation_config.is_null()) return own;
  return JsonObject(file.generation_config, place_of(file, "generation_config.json")).integer(key, 0, UINT32_MAX, own);
}

// Settings that change the result, and that no family of Weft's has.
void refuse_odd(const Config& c, const JsonObject& values) {
  for (const std::string odd : {"use_bidirectional_attention", "scale_attn_by_inverse_layer_idx", "use_qk_norm",
                                "apply_residual_connection_post_layernorm", "is_decoder", "prenorm", "use_rms_norm",
                                "parallel_block", "qk_layernorm", "new_decoder_architecture", "alibi", "bias",
                                "qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "rotary_emb_interleaved"})
    if (!(c.layer_kind.sees_all && odd == "use_bidirectional_attention") && !sees_pictures_whole(c, values, odd) &&
        !(c.layer_kind.norm_rotated && odd == "use_qk_norm") && values.flag(odd, false))
      unsupported("not supported: '" + odd + "'", values);
  if (c.layer_kind.norm_rotated && !values.flag("use_qk_norm", true))
    unsupported("not supported: 'use_qk_norm' false", values);
  if (!values.flag("scale_attn_weights", true)) unsupported("not supported: 'scale_attn_weights' false", values);
  for (const char* const usual : {"do_layer_norm_before", "parallel_attn"})
    if (!values.flag(usual, true)) unsupported("not supported: '" + std::string(usual) + "' false", values);
  if (values.number("clip_qkv", 0, 1e6, 0) > 0) unsupported("not supported: 'clip_qkv'", values);
  if (values.has("multi_query") && !values.flag("multi_query", true))
    unsupported("not supported: 'multi_query' false", values);
  if (const uint32_t own = values.integer("word_embed_proj_dim", 1, kMost, c.width); own != c.width)
    unsupported("not supported: embeddings of another width", values);
}

// EmbeddingGemma 2 has the layer after its pooling among its own tensors. nullptr: the file lacks it, or the family.
const TensorView* embedding_projection(const Config& c, const ModelFile& file, const JsonObject& values) {
  if (!c.traits->gemma4 || !c.layer_kind.sees_all) return nullptr;
  const std::string name = tensor_name(file.kind, *c.traits, "embedding_projection");
  const TensorView* tensor = file.find(name);
  if (!tensor) tensor = file.find(name.substr(c.traits->prefix.size()));  // a body alone
  if (tensor && tensor->shape != std::vector<uint64_t>{values.integer("embedding_dim", 1, kMost, 768), c.width})
    throw Error(Code::bad_file, "tensor '" + tensor->name + "' has the shape " + text_of(tensor->shape),
                file.path.string());
  return tensor;
}

// MPT's attention is an object of its own.
void check_mpt(const JsonObject& values) {
  if (!values.has("attn_config")) return;
  const JsonObject own = values.object("attn_config");
  for (const char* key : {"clip_qkv", "softmax_scale"})
    if (own.has(key)) unsupported("not supported: '" + std::string(key) + "'", own);
  for (const char* key : {"qk_ln", "prefix_lm", "attn_uses_sequence_id"})
    if (own.flag(key, false)) unsupported("not supported: '" + std::string(key) + "'", own);
  if (!own.flag("alibi", true) || own.integer("alibi_bias_max", 1, 4096, 8) != 8)
    unsupported("not supported: other positions than ALiBi's", own);
}

Config from_huggingface(const ModelFile& file, const JsonObject& values, const Family& family) {
  Config c = begin(std::string(family.model_type), family);
  c.width = values.integer(values.either({"hidden_size", "n_embd", "n_embed", "d_model"}), 1, kMost);
  c.layers = values.integer(values.either({"decoder_layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers"}),
                            1, 4096);
  const std::string ffn = values.either(
      {"block_ff_dim", "decoder_ffn_dim", "intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size"});
  const bool experts = c.traits->experts && values.has("num_experts");  // then there may be no other feed-forward
  c.ffn = c.layer_kind.gated && !experts
              ? values.integer(ffn, 1, kMost)
              : values.integer(ffn, 1, kMost, values.integer("expansion_ratio", 1, 64, 4) * c.width);
  c.context = values.integer(
      values.either({"max_trained_positions", "max_position_embeddings", "n_positions", "seq_length", "max_seq_len"}),
      1, kMostContext, 2048);
  c.heads.heads = values.integer(values.either({"decoder_attention_heads", "num_attention_heads", "n_head",
                                                "attention_heads", "num_heads", "n_heads"}),
                                 1, 4096);
  c.heads.kv_heads = values.integer("num_key_value_heads", 1, 4096, values.has("multi_query") ? 1 : c.heads.heads);
  c.heads.head_dim = values.integer(values.either({"head_dim", "d_kv"}), 1, 4096, c.width / c.heads.heads);
  c.epsilon =
      values.real(values.either({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon"}),
                  0, 1, c.layer_kind.norm == ops::NormKind::layer ? 1e-5 : 1e-6);
  c.layer_kind.activation = read_activation(c, values);
  read_parallel(c, values, "use_parallel_residual");
  const bool attention_bias = values.flag("attention_bias", c.traits->qkv_by_head);  // as GPT-NeoX's default is
  if (const char* const all = "use_bias"; values.has(all))
    c.layer_kind.qkv_bias = c.layer_kind.out_bias = c.layer_kind.ffn_bias = values.flag(all, true);
  c.layer_kind.qkv_bias |= attention_bias || values.flag("use_qkv_bias", false);
  c.layer_kind.out_bias |= values.flag("attention_out_bias", attention_bias && !c.traits->qkv_bias_only);
  c.layer_kind.ffn_bias |= values.flag("mlp_bias", false);
  c.layer_kind.norm_bias |= values.flag("norm_bias", false);
  c.tied = values.flag("tie_word_embeddings", false);
  if (c.traits->norms_lack_one) c.norm_offset = 1;
  if (c.traits->gemma) {
    c.norm_offset = c.traits->gemma4 ? 0 : 1;
    if (c.layer_kind.sees_all) c.tied = true;  // EmbeddingGemma 2 has no output table
    // query_pre_attn_scalar stands in for the head dimension; Gemma 1 has none.
    c.attention_cap = values.real("attn_logit_softcapping", 0, 1e6, 0);
    c.logit_cap = values.real("final_logit_softcapping", 0, 1e6, 0);
  }
  c.pairs = c.traits->pairs;
  c.logit_scale = values.real("logit_scale", kTiny, 1e6, 1);
  if (values.flag("scale_embedding", c.layer_kind.positions == Positions::sinusoidal))
    c.embedding_scale = std::sqrt(static_cast<float>(c.width));
  c.attention_scale =
      static_cast<float>(1 / std::sqrt(values.number("query_pre_attn_scalar", kTiny, 1e6, c.heads.head_dim)));
  if (c.traits->multipliers) {
    c.attention_scale = values.real("attention_multiplier", kTiny, 1e6, 1);
    c.embedding_scale = values.real("embedding_multiplier", kTiny, 1e6, 1);
    c.residual_scale = values.real("residual_multiplier", kTiny, 1e6, 1);
    c.logit_scale = 1 / values.real("logits_scaling", kTiny, 1e6, 1);
  }
  const bool gemma_both = c.traits->gemma && !c.traits->gemma4 && values.flag("use_bidirectional_attention", false);
  if (gemma_both || (!c.layer_kind.sees_all && !values.flag("is_causal", true))) see_both_ways(c, values);
  if (c.layer_kind.sees_all || !file.sentence_modules.is_null())
    c.sentences =
        read_sentence_config(file, !c.layer_kind.sees_all, c.context, c.width, embedding_projection(c, file, values));
  if (c.layer_kind.positions == Positions::learned && c.layer_kind.sees_all) {
    if (const std::string type = values.text("position_embedding_type", "absolute"); type != "absolute")
      unsupported("not supported: positions '" + type + "'", values);
  }
  refuse_odd(c, values);
  read_huggingface_positions(c, values);
  if (c.layer_kind.positions == Positions::bucketed)
    read_huggingface_t5(c, values);
  else if (c.traits->encoder)
    read_bart(c, values);
  if (c.traits->sound) read_whisper(c, file, values);
  check_mpt(values);
  read_huggingface_mixers(c, values);
  read_huggingface_experts(c, values);
  read_pictures(c, values);
  if (c.encoder) c.start_token = read_start_token(file, values);
  return c;
}

// Gives keys that the file lacks the values of the family.
Config read_huggingface(const ModelFile& file, const JsonObject& values) {
  const std::string type = values.text("model_type", "");
  const JsonValue defaults = parse_json(default_settings(type), "the family's settings");
  return from_huggingface(file, JsonObject(file.metadata, values.place(), defaults),
                          find_family(file.kind, type, values.place()));
}

void check_heads(const Config& c, const ops::HeadShape& heads, const JsonObject& values) {
  const auto contradict = [&](const std::string& what) { throw Error(Code::bad_file, what, values.place()); };
  if (heads.kv_heads > heads.heads || heads.heads % heads.kv_heads != 0)
    contradict(std::to_string(heads.heads) + " heads cannot share " + std::to_string(heads.kv_heads) +
               " key/value heads evenly");
  if (c.traits->qkv_by_head && heads.kv_heads != heads.heads)
    contradict(std::to_string(heads.kv_heads) +
               " key/value heads, this family has as many as heads: " + std::to_string(heads.heads));
  if (heads.head_dim == 0 || heads.head_dim % 2 != 0 || heads.head_dim > ops::kMostHeadDim)
    throw Error(Code::unsupported,
                "the head dimension is " + std::to_string(heads.head_dim) + ", supported are even ones up to " +
                    std::to_string(ops::kMostHeadDim),
                values.place());
}

// The columns after a row's must stay zero (ops.h), so rows of different layers fill whole multiples of 64.
void check_widths(const Config& c, const JsonObject& values) {
  const auto check = [&](const char* what, uint32_t own, uint32_t usual) {
    if (own == usual || (own % 64 == 0 && usual % 64 == 0)) return;
    throw Error(Code::unsupported,
                std::string("not supported: ") + what + " of " + std::to_string(own) + " and " + std::to_string(usual) +
                    " columns in one model, which are not both multiples of 64",
                values.place());
  };
  for (uint32_t layer = 0; layer < c.layers; ++layer) {
    check("feed-forwards", c.ffn_of(layer), c.ffn);
    if (const auto* own = std::get_if<AttentionConfig>(&c.layer_configs[layer].mixer))
      check("queries", c.shape_of(*own).heads * c.shape_of(*own).head_dim, c.query_dim());
  }
}

void check_shape(const Config& c, const JsonObject& values) {
  const auto contradict = [&](const std::string& what) { throw Error(Code::bad_file, what, values.place()); };
  check_heads(c, c.heads, values);
  for (const LayerConfig& layer : c.layer_configs) {
    const auto* own = std::get_if<AttentionConfig>(&layer.mixer);
    if (!own) continue;
    const ops::HeadShape& heads = c.shape_of(*own);
    check_heads(c, heads, values);
    if (own->rotary_dim % 2 != 0 || own->rotary_dim > heads.head_dim)
      contradict("the rotary dimension is " + std::to_string(own->rotary_dim) + ", the head dimension " +
                 std::to_string(heads.head_dim));
  }
  check_widths(c, values);
  for (const LayerConfig& layer : c.layer_configs)
    if (const ops::LinearShape* linear = linear_shape(layer.mixer);
        linear && (linear->heads % linear->key_heads != 0 || linear->values() > kMost))
      contradict(std::to_string(linear->heads) + " heads of linear attention cannot share " +
                 std::to_string(linear->key_heads) + " heads of keys evenly");
  if (c.layer_kind.positions == Positions::bucketed && c.buckets.farthest <= c.buckets.count / 2)
    contradict(std::to_string(c.buckets.count) + " buckets of distances, the farthest is " +
               std::to_string(c.buckets.farthest));
}

// Settings that follow from those of the file, and checks of all.
Config complete(Config c, const ModelFile& file, const JsonObject& values) {
  c.fingerprint = fingerprint(file);
  find_biases(c, file);
  for (const Rope& rope : c.ropes)
    c.context = std::max(c.context, static_cast<uint32_t>(std::min<double>(rope.reach(), kMostContext)));
  if (c.traits->gemma) c.embedding_scale = std::sqrt(static_cast<float>(c.width));
  if (c.layer_kind.norm_rotated && c.ropes[0].magnitude != 1)
    unsupported("not supported: norms after a RoPE that scales", values);
  c.mixer_epsilon = c.epsilon;
  c.embedding_scale /= c.residual_scale;
  c.epsilon /= c.residual_scale * c.residual_scale;
  check_shape(c, values);
  if (c.encoder) check_shape(*c.encoder, values);
  return c;
}

}  // namespace

Config read_config(const ModelFile& file) {
  const bool gguf = file.kind == ModelFile::Kind::gguf;
  const JsonObject values(file.metadata, place_of(file, "config.json"));
  return complete(gguf ? from_gguf(file, values) : read_huggingface(file, values), file, values);
}

Config read_assistant_config(const ModelFile& file) {
  const JsonObject values(file.metadata, place_of(file, "config.json"));
  const Family& family = assistant_family();
  if (file.kind != ModelFile::Kind::huggingface || values.text("model_type", "") != family.model_type)
    throw Error(Code::bad_file, "it is no drafter of Gemma 4", file.path.string(),
                "expected a folder whose config.json has the model_type '" + std::string(family.model_type) + "'");
  if (values.flag("use_ordered_embeddings", false)) unsupported("not supported: 'use_ordered_embeddings'", values);
  const JsonValue defaults = parse_json(default_settings("gemma4_text"), "the family's settings");
  const JsonObject text(values.at("text_config"), values.place() + ", text_config", defaults);
  Config c = complete(from_huggingface(file, text, family), file, text);
  c.backbone = values.integer("backbone_hidden_size", 1, kMost, 1536);
  c.tied = values.flag("tie_word_embeddings", true);
  return c;
}

}  // namespace weft
