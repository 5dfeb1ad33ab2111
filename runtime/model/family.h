// The model families: what a name implies, and how each names and stores its tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "format/model_file.h"
#include "ops/ops.h"

namespace weft {

// How the network encodes the position of a token.
enum class Positions {
  rotary,      // RoPE rotates queries and keys (Su et al. 2021, "RoFormer")
  learned,     // a row for each position is added to the embedding
  sinusoidal,  // the same, and the rows are sines and cosines (Vaswani et al. 2017)
  alibi,       // scores fall with the distance (Press et al. 2022, "Train short, test long")
  bucketed,    // scores have learned biases, one for each range of distances (Raffel et al. 2020, "T5")
};

// A feed-forward beside a layer's experts, which every token goes through.
enum class SharedExpert {
  none,
  plain,
  gated,  // its result is multiplied by the sigmoid of a product of its input
};

// The gate on the result of attention: the sigmoid of a product of the layer's input.
enum class AttentionGate {
  none,
  values,  // one for each value; attn_q has rows (head, q gate, head_dim)
  heads,   // one for each head
};

// Operations of a layer. The defaults are Llama's (Touvron et al. 2023).
struct LayerKind {
  ops::NormKind norm = ops::NormKind::rms;
  bool norm_bias = true;        // of layer norms
  bool norm_weights = true;     // of norms
  bool embedding_norm = false;  // the embedding is normed before the first layer
  bool typed = false;           // a row of the tokens' type is added to the embedding, without learned positions
  bool first_unnormed = false;  // the first layer's mixer reads x as it is
  bool unnormed = false;        // so do all layers' mixers and feed-forwards
  // The norm follows each branch and takes x with the branch added (Vaswani et al. 2017); else it precedes the branch.
  bool norm_after = false;
  bool norm_heads = false;     // queries and keys are normed head by head, before RoPE
  bool norm_rotated = false;   // queries and keys are normed head by head, after RoPE
  bool norm_rows = false;      // queries and keys are normed over all heads together, before RoPE
  bool norm_values = false;    // with norm_heads: values too, by a norm without weights
  bool norm_branches = false;  // what attention and feed-forward add to x is normed once more
  bool scaled = false;         // with norm_branches: each layer ends with a factor of x
  bool parallel = false;       // both branches read the same x; else the feed-forward reads x after attention
  bool shared_norm = false;    // parallel, and both read the same norm of x
  bool sees_all = false;       // every token sees every other: an encoder
  bool sees_source = false;    // after self-attention a layer attends to an encoder's output: a decoder
  Positions positions = Positions::rotary;
  bool gated = true;  // the feed-forward is down(f(gate) * up); else down(f(up))
  ops::Activation activation = ops::Activation::silu;
  bool qkv_bias = false, out_bias = false, ffn_bias = false;
  bool key_bias = true;  // with qkv_bias: keys have one too
  SharedExpert shared_expert = SharedExpert::none;
  bool expert_bias = false;  // the router and the experts have biases
  bool choice_bias = false;  // experts are chosen by their scores with a bias (ops::route)
  bool sinks = false;        // of the attention (ops::Attention)
  AttentionGate attention_gate = AttentionGate::none;
};

using TensorNames = std::span<const std::pair<std::string_view, std::string_view>>;  // role, Hugging Face's name

struct Family {
  std::string_view architecture;  // GGUF's general.architecture; empty: GGUF has none for it
  std::string_view model_type;    // config.json's
  LayerKind layer_kind = {};
  ops::Pairs pairs = ops::Pairs::halves;  // of dimensions that RoPE rotates
  // The same for GGUF files: those of Llama have the rows of q and k in an order that pairs (2i, 2i + 1).
  ops::Pairs gguf_pairs = ops::Pairs::halves;
  bool gemma = false;             // embeddings are scaled by sqrt(width); Hugging Face's norm weights lack 1
  uint32_t global_every = 0;      // every n-th layer of a model with a window has none; 0: all have it
  bool global_first = false;      // these are the first layer and each n-th after it
  uint32_t no_rope_every = 0;     // every n-th layer has no RoPE; 0: all have it
  bool gguf_window = false;       // GGUF files of it must say how long the window is
  bool gguf_multipliers = false;  // and what logits and, with `multipliers`, other values are multiplied by
  bool window_rope = false;       // if some layers have a window, only these have RoPE
  bool whole_yarn = true;         // YarnScaling::whole of GGUF files, which do not say it
  double local_rope_base = 0;     // of layers with a window, if the file says nothing; 0: the same
  bool local_plain = false;       // layers with a window have RoPE without its scaling
  std::string_view prefix = "model.", layers = "layers.";  // of Hugging Face's names
  std::string_view gguf_layers = "blk.";
  TensorNames names = {};          // that differ from Llama's
  TensorNames gguf_names = {};     // that differ from the roles'
  bool transposed = false;         // Hugging Face: the layers' matrices are (columns, rows)
  bool transposed_output = false;  // of an image encoder: so is "output", in every kind of file
  bool qkv_by_head = false;  // Hugging Face: rows of attn_qkv are (head, q k v, head_dim), not (q k v, head, head_dim)
  uint32_t first_position = 0;      // Hugging Face: the row of the position table that the first position has
  bool shares_norm = false;         // parallel branches, which a file may ask for, read the same norm of x
  bool qkv_bias_only = false;       // Hugging Face: attention_bias is of queries, keys and values, not of the output
  bool output_bias = false;         // the output table has a bias, which the logits get
  bool norms_lack_one = false;      // Hugging Face: the norms' weights are about 0, 1 is added
  bool query_growth = false;        // queries grow with their position, if the file says so (ops::QueryGrowth)
  bool multipliers = false;         // of the embedding, the scores, what a branch adds, and the logits: Granite
  bool gated_delta = false;         // layers that the file names have a Gated DeltaNet in place of attention
  bool gemma4 = false;              // with `gemma`: what Gemma 4 has beyond Gemma 3 (config_gemma4.h)
  bool assistant = false;           // with `gemma4`: every layer reads a cache of another model (model/assistant.h)
  bool short_conv = false;          // layers that the file names have a short convolution in place of attention
  bool lfm3 = false;                // with `short_conv`: norms of branches and gates of heads, unless the file says not
  bool mamba2 = false;              // layers that the file names have a Mamba-2 in place of attention
  bool raw_gates = false;           // GGUF: weights of the chosen experts are not normalised, if the file says nothing
  bool experts = false;             // layers may have experts in place of a feed-forward
  const Family* encoder = nullptr;  // of an encoder-decoder, whose decoder this describes: its other half. Static
  bool sound = false;               // the encoder reads sound, not tokens: Whisper
};

// All that find_family knows. Static.
std::span<const Family> all_families();

// The family of a file. Throws Error(unsupported) naming the unknown one, the place, and all there are.
const Family& find_family(ModelFile::Kind kind, const std::string& name, const std::string& place);

// The image encoders: SigLIP's (Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training") with the ends of
// Idefics3 and SmolVLM, or those of Gemma 3, and Qwen3-VL's. Static; find_family does not know them.
enum class ImageKind { joined, pooled, merged };
const Family& image_family(ImageKind kind);

// Gemma 4's drafter. Static; find_family does not know it.
const Family& assistant_family();

// The file's name for a tensor. role: "token_embd", "token_embd_norm", "token_types", "position_embd", "output_norm" or
// "output"; of a layer "attn_norm", "attn_q", "attn_k", "attn_v" or all three as "attn_qkv", "attn_q_norm",
// "attn_k_norm", "attn_rel_b", "attn_output", "attn_output_norm", "post_attention_norm", "cross_attn_norm",
// "cross_attn_q", "cross_attn_k", "cross_attn_v", "cross_attn_o", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down",
// "post_ffw_norm" or "layer_output_norm"; of a short convolution "shortconv_in", "shortconv_conv" and
// "shortconv_out"; of a Gated DeltaNet "delta_qkv", "delta_z", "delta_a", "delta_b", "delta_conv", "delta_norm",
// "delta_out", and, with an empty `what`, "delta_decay" and "delta_bias"; of per-layer embeddings "per_layer_table",
// "per_layer_proj" and "per_layer_norm", in a layer "layer_gate", "layer_proj" and "layer_post_norm", and, with an
// empty `what`, "layer_scale"; of a Mamba-2 "mamba_in", "mamba_conv", "mamba_norm", "mamba_out", and in the same way
// "mamba_decay", "mamba_bias" and "mamba_skip"; with experts (GGUF's words), "ffn_gate_inp" for the router,
// "exp_probs_b" for the biases of its choice, "ffn_gate_exps", "ffn_up_exps", or both as "ffn_gate_up_exps", and
// "ffn_down_exps" for all of theirs, where a # in Hugging Face's name stands for one's number; of a feed-forward beside
// them "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp" and, for its gate, "ffn_gate_inp_shexp"; "attn_sinks";
// "attn_gate"; of a masked-token head, which GGUF does not know, "mlm_dense", "mlm_norm" or "mlm". what: "weight" or
// "bias". The image encoder has "patch_embd", "position_embd", "output_norm", the layers' roles, "soft_norm" for Gemma
// 3's norm of pooled states, and "output" for the projection to the width of the text model; Qwen3-VL's in place of
// these has "merger_up" and "merger_down", and with the number of a layer "deepstack_norm", "deepstack_up" and
// "deepstack_down" (in Hugging Face's names the number counts these mergers alone). An encoder of sound has "conv1" and
// "conv2" before its layers. Gemma 4's drafter has "assistant_in" before its layers and "assistant_out" after them.
std::string tensor_name(ModelFile::Kind kind, const Family& family, std::string_view role, int layer = -1,
                        std::string_view what = "weight");

}  // namespace weft
