// Settings of the network in a model file, checked.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/model_file.h"
#include "model/family.h"
#include "model/layer.h"
#include "model/rope_scaling.h"
#include "model/score_buckets.h"
#include "model/sentence_config.h"
#include "ops/ops.h"
#include "vocab/heads/output_head.h"

namespace weft {

// Settings of generation_config.json for models that hear.
struct SpeechConfig {
  std::vector<uint32_t> suppressed;  // ids that are never written: they tell of music and speakers, or are no text
  uint32_t latest_first_time = 50;   // of a window, in steps of 20 ms
  bool multilingual = true;
  // Defaults for callers that give none: a code, empty: found in the sound; and whether the text is English.
  std::string language = {};
  bool translate = false;
  // Layers and heads of the attention to the encoder that follow the words; none: not known. Files may name some that
  // the model does not have.
  std::vector<std::pair<uint32_t, uint32_t>> aligned_heads = {};
};

// The description of a network. forward.cpp reads it and never asks for the family.
struct Config {
  std::string family;              // as the file names it: "llama"
  const Family* traits = nullptr;  // static
  uint32_t vocab = 0;              // rows of the vocabulary table
  uint32_t width = 0;              // of a hidden state
  uint32_t layers = 0;
  uint32_t further_layers = 0;  // of the file, after these: they guess further tokens. Weft does not use them
  ops::HeadShape heads = {};    // of attention that has no other
  uint32_t ffn = 0;  // width of the inner state of a feed-forward, or of the one beside experts; the most of all layers
  ops::Experts experts;
  uint32_t expert_ffn = 0;  // the same of each expert
  uint32_t context = 0;     // most tokens the model was made for
  LayerKind layer_kind;
  // The model multiplies what a branch adds to x by this. Here x and the embedding's scale are divided by it instead,
  // and the epsilon of x's norms by its square: these norms are the same.
  float residual_scale = 1;
  float epsilon = 0;          // of the norms of x
  float mixer_epsilon = 0;    // of the mixers' own norms
  float norm_offset = 0;      // added to the file's norm weights
  float embedding_scale = 1;  // of the embedding
  float attention_scale = 0;  // of the scores
  float attention_cap = 0;    // soft-cap of the scores; 0: none
  uint32_t layer_input = 0;   // columns of a layer's own embedding of a token (layer_input.h); 0: none
  uint32_t backbone = 0;      // of Gemma 4's drafter: width of the model that it guesses for; 0: it is none
  bool has_layer_input_table() const { return layer_input > 0 && !layer_kind.sees_all; }
  float logit_scale = 1;  // of the logits, before the cap
  float logit_cap = 0;    // soft-cap of the logits; 0: none
  ops::QueryGrowth query_growth;
  std::shared_ptr<const OutputHead> head;  // with weights of its own; nullptr: the table alone gives logits
  ops::Pairs pairs = ops::Pairs::halves;
  std::vector<Rope> ropes;
  std::vector<LayerConfig> layer_configs;  // (layers)
  std::optional<bool> tied;                // as the file says; GGUF says nothing
  SentenceConfig sentences;                // how a text becomes an embedding
  bool can_measure_states() const {
    return !encoder && !layer_kind.sees_all && !layer_kind.sees_source && width > LEADING;
  }
  // True if texts become embeddings.
  bool embeds() const { return layer_kind.sees_all || encoder || sentences.given; }
  uint64_t fingerprint = 0;  // of the file (fingerprint.h)
  ScoreBuckets buckets;      // with Positions::bucketed
  // For an encoder-decoder, where this config is the decoder's: the encoder, which has the same width, and the token
  // that the decoder starts from.
  std::shared_ptr<const Config> encoder;
  // Soft tokens right after this token are a picture: they see each other, not only earlier ones (Gemma 3). Has a value
  // only with picture_rows.
  std::optional<uint32_t> picture_token;
  uint32_t picture_rows = 0;  // most of a picture
  // Soft tokens right after this token are a picture whose tokens have a row and a column (Qwen3-VL). Has a value only
  // if the first rope has axes.
  std::optional<uint32_t> grid_token;
  // Layers after each of which rows of its own are added to a picture's tokens (DeepStack: Meng et al. 2024).
  uint32_t deepstack = 0;
  uint32_t bands = 0;  // of an encoder that reads sound (sound_input.h): numbers of a frame; 0: it reads tokens
  std::shared_ptr<const SpeechConfig> speech;  // nullptr: it does not hear
  bool hears() const { return encoder && encoder->bands > 0; }
  uint32_t start_token = 0;

  uint32_t query_dim() const { return heads.heads * heads.head_dim; }
  uint32_t kv_dim() const { return heads.kv_heads * heads.head_dim; }
  const ops::HeadShape& shape_of(const AttentionConfig& layer) const { return layer.heads.heads ? layer.heads : heads; }
  uint32_t ffn_of(uint32_t layer) const { return layer_configs[layer].ffn ? layer_configs[layer].ffn : ffn; }
  // As shaders/lib/soft_cap.glsl.
  float soft_capped(float logit) const { return logit_cap > 0 ? logit_cap * std::tanh(logit / logit_cap) : logit; }
  ops::NormShape norm() const { return {width, epsilon, layer_kind.norm}; }
  // True if each branch begins with an RMSNorm of x that only a product reads, and the one before knows its weights.
  bool begins_norms() const {
    const LayerKind& k = layer_kind;
    return k.norm == ops::NormKind::rms && !k.norm_after && !k.unnormed && !k.parallel && !k.shared_norm &&
           !k.sees_source && experts.count == 0;
  }
  ops::Attention attention(uint32_t layer) const {
    ops::Attention attention = {attention_scale, attention_of(layer).window, attention_cap,
                                layer_kind.positions == Positions::alibi,
                                layer_kind.sees_all ? ops::AttentionMask::none : ops::AttentionMask::causal};
    attention.growth = query_growth;
    return attention;
  }
  // The layer must have attention.
  const AttentionConfig& attention_of(uint32_t layer) const {
    return std::get<AttentionConfig>(layer_configs[layer].mixer);
  }
  template <class Kind>
  bool has_mixer() const {
    for (const LayerConfig& layer : layer_configs)
      if (std::holds_alternative<Kind>(layer.mixer)) return true;
    return false;
  }
  // True if a layer has a feed-forward that every token goes through.
  bool has_dense() const {
    return layer_kind.shared_expert != SharedExpert::none ||
           !std::ranges::all_of(layer_configs, [](const LayerConfig& layer) { return layer.experts; });
  }
  // True if a pass can check a draft that is a tree: all layers have attention, and a key's place does not change
  // scores.
  bool checks_trees() const {
    return layer_kind.positions == Positions::rotary && !has_position_table() && !encoder && !layer_kind.sees_all &&
           std::ranges::all_of(layer_configs, [](const LayerConfig& layer) {
             const auto* const attention = std::get_if<AttentionConfig>(&layer.mixer);
             return attention && (attention->window == 0 || attention->window >= TREE_ROWS);
           });
  }
  // True if a row of numbers for each of `context` positions is added to the embedding. Where only the tokens' type is
  // added, the rows are equal.
  bool has_position_table() const {
    return layer_kind.positions == Positions::learned || layer_kind.positions == Positions::sinusoidal ||
           layer_kind.typed;
  }
};

// Reads GGUF metadata or config.json. Throws Error(unsupported) naming a family or feature Weft cannot run, and
// Error(bad_file) for values that are missing, of the wrong type, out of range or contradictory. vocab comes from the
// table's tensor.
Config read_config(const ModelFile& file);
// The same for a folder of Gemma 4's drafter, which read_config refuses. Throws also Error(bad_file) for another folder
// or file. The layers' sources are not known yet: fit_assistant (assistant.h) sets them.
Config read_assistant_config(const ModelFile& file);

}  // namespace weft
