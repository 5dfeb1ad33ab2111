// What a model file says about its network, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "format/model_file.h"
#include "ops/ops.h"

namespace weft {

struct Config {
  std::string family;  // "llama"
  uint32_t vocab = 0;  // rows of the vocabulary table
  uint32_t width = 0;  // of a hidden state
  uint32_t layers = 0;
  ops::HeadShape heads = {};
  uint32_t ffn = 0;         // width of the feed-forward's inner state
  uint32_t context = 0;     // most tokens the model was made for
  float epsilon = 0;        // of the norms
  double rope_theta = 0;    // base of the rotary frequencies
  uint32_t rotary_dim = 0;  // leading dimensions of a head that turn
  ops::Pairs pairs = ops::Pairs::halves;
  std::optional<bool> tied;  // what the file says; GGUF says nothing

  uint32_t query_dim() const { return heads.heads * heads.head_dim; }
  uint32_t kv_dim() const { return heads.kv_heads * heads.head_dim; }
};

// Reads GGUF metadata or config.json. Throws Error(unsupported) naming a family or feature Weft cannot run, and
// Error(bad_file) for values that are missing, of the wrong type, out of range or contradictory. vocab comes from the
// table's tensor.
Config read_config(const ModelFile& file);

// The file's name for a tensor. role: "token_embd", "output_norm" or "output"; of a layer "attn_norm", "attn_q",
// "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up" or "ffn_down" (GGUF's words).
std::string tensor_name(ModelFile::Kind kind, std::string_view role, int layer = -1);

}  // namespace weft
