#include "model/family.h"

#include "base/error.h"

namespace weft {
namespace {

using ops::Activation;
using ops::NormKind;
using Name = std::pair<std::string_view, std::string_view>;

constexpr Name kLlamaNames[] = {{"token_embd", "embed_tokens"},
                                {"output_norm", "norm"},
                                {"output", "lm_head"},
                                {"attn_norm", "input_layernorm"},
                                {"attn_q", "self_attn.q_proj"},
                                {"attn_k", "self_attn.k_proj"},
                                {"attn_v", "self_attn.v_proj"},
                                {"attn_qkv", "self_attn.qkv_proj"},
                                {"attn_q_norm", "self_attn.q_norm"},
                                {"attn_k_norm", "self_attn.k_norm"},
                                {"attn_output", "self_attn.o_proj"},
                                {"ffn_norm", "post_attention_layernorm"},
                                {"ffn_gate", "mlp.gate_proj"},
                                {"ffn_up", "mlp.up_proj"},
                                {"ffn_down", "mlp.down_proj"}};
constexpr Name kGemma2Names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                 {"ffn_norm", "pre_feedforward_layernorm"},
                                 {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Name kGemma4Names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                 {"ffn_norm", "pre_feedforward_layernorm"},
                                 {"post_ffw_norm", "post_feedforward_layernorm"},
                                 {"per_layer_table", "embed_tokens_per_layer"},
                                 {"per_layer_proj", "per_layer_model_projection"},
                                 {"per_layer_norm", "per_layer_projection_norm"},
                                 {"layer_gate", "per_layer_input_gate"},
                                 {"layer_proj", "per_layer_projection"},
                                 {"layer_post_norm", "post_per_layer_input_norm"},
                                 {"layer_scale", "layer_scalar"}};
constexpr Name kGemma4Gguf[] = {{"per_layer_table", "per_layer_token_embd"},
                                {"per_layer_proj", "per_layer_model_proj"},
                                {"per_layer_norm", "per_layer_proj_norm"},
                                {"layer_gate", "inp_gate"},
                                {"layer_proj", "proj"},
                                {"layer_post_norm", "post_norm"},
                                {"layer_scale", "layer_output_scale.weight"}};
constexpr Name kMixtralNames[] = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                                  {"ffn_gate_exps", "block_sparse_moe.experts.#.w1"},
                                  {"ffn_up_exps", "block_sparse_moe.experts.#.w3"},
                                  {"ffn_down_exps", "block_sparse_moe.experts.#.w2"}};
constexpr Name kQwen3MoeNames[] = {{"ffn_gate_inp", "mlp.gate"},
                                   {"ffn_gate_exps", "mlp.experts.#.gate_proj"},
                                   {"ffn_up_exps", "mlp.experts.#.up_proj"},
                                   {"ffn_down_exps", "mlp.experts.#.down_proj"}};
constexpr Name kGptOssNames[] = {{"attn_sinks", "self_attn.sinks"},
                                 {"ffn_gate_inp", "mlp.router"},
                                 {"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
                                 {"ffn_down_exps", "mlp.experts.down_proj"}};
constexpr Name kGptOssGguf[] = {{"ffn_norm", "post_attention_norm"}};
constexpr Name kPhi3Names[] = {{"ffn_up", "mlp.gate_up_proj"}};
constexpr Name kGpt2Names[] = {{"token_embd", "wte"},          {"position_embd", "wpe"},    {"output_norm", "ln_f"},
                               {"attn_norm", "ln_1"},          {"attn_qkv", "attn.c_attn"}, {"ffn_norm", "ln_2"},
                               {"attn_output", "attn.c_proj"}, {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"}};
constexpr Name kNeoxNames[] = {{"token_embd", "embed_in"},
                               {"output_norm", "final_layer_norm"},
                               {"output", "embed_out"},
                               {"attn_qkv", "attention.query_key_value"},
                               {"attn_output", "attention.dense"},
                               {"ffn_up", "mlp.dense_h_to_4h"},
                               {"ffn_down", "mlp.dense_4h_to_h"}};

constexpr Name kBloomNames[] = {{"token_embd", "word_embeddings"},
                                {"token_embd_norm", "word_embeddings_layernorm"},
                                {"output_norm", "ln_f"},
                                {"attn_qkv", "self_attention.query_key_value"},
                                {"attn_output", "self_attention.dense"},
                                {"ffn_up", "mlp.dense_h_to_4h"},
                                {"ffn_down", "mlp.dense_4h_to_h"}};
constexpr Name kXglmNames[] = {{"output_norm", "layer_norm"},
                               {"attn_norm", "self_attn_layer_norm"},
                               {"attn_output", "self_attn.out_proj"},
                               {"ffn_norm", "final_layer_norm"},
                               {"ffn_up", "fc1"},
                               {"ffn_down", "fc2"}};
constexpr Name kBertNames[] = {{"token_embd", "embeddings.word_embeddings"},
                               {"token_embd_norm", "embeddings.LayerNorm"},
                               {"token_types", "embeddings.token_type_embeddings"},
                               {"position_embd", "embeddings.position_embeddings"},
                               {"output", "cls.predictions.decoder"},
                               {"mlm_dense", "cls.predictions.transform.dense"},
                               {"mlm_norm", "cls.predictions.transform.LayerNorm"},
                               {"mlm", "cls.predictions"},
                               {"attn_q", "attention.self.query"},
                               {"attn_k", "attention.self.key"},
                               {"attn_v", "attention.self.value"},
                               {"attn_output", "attention.output.dense"},
                               {"attn_output_norm", "attention.output.LayerNorm"},
                               {"ffn_up", "intermediate.dense"},
                               {"ffn_down", "output.dense"},
                               {"layer_output_norm", "output.LayerNorm"}};

// As the model's own files have them; Transformers 5 renames them.
constexpr Name kNomicBertNames[] = {{"token_embd", "embeddings.word_embeddings"},
                                    {"token_embd_norm", "emb_ln"},
                                    {"token_types", "embeddings.token_type_embeddings"},
                                    {"attn_qkv", "attn.Wqkv"},
                                    {"attn_output", "attn.out_proj"},
                                    {"attn_output_norm", "norm1"},
                                    {"ffn_up", "mlp.fc11"},
                                    {"ffn_gate", "mlp.fc12"},
                                    {"ffn_down", "mlp.fc2"},
                                    {"layer_output_norm", "norm2"}};
constexpr Name kModernBertNames[] = {{"token_embd", "embeddings.tok_embeddings"},
                                     {"token_embd_norm", "embeddings.norm"},
                                     {"output_norm", "final_norm"},
                                     {"output", "decoder"},
                                     {"mlm_dense", "head.dense"},
                                     {"mlm_norm", "head.norm"},
                                     {"attn_norm", "attn_norm"},
                                     {"attn_qkv", "attn.Wqkv"},
                                     {"attn_output", "attn.Wo"},
                                     {"ffn_norm", "mlp_norm"},
                                     {"ffn_up", "mlp.Wi"},
                                     {"ffn_down", "mlp.Wo"}};

constexpr Name kT5EncoderNames[] = {
    {"output_norm", "encoder.final_layer_norm"}, {"attn_norm", "layer.0.layer_norm"},
    {"attn_q", "layer.0.SelfAttention.q"},       {"attn_k", "layer.0.SelfAttention.k"},
    {"attn_v", "layer.0.SelfAttention.v"},       {"attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"},
    {"attn_output", "layer.0.SelfAttention.o"},  {"ffn_norm", "layer.1.layer_norm"},
    {"ffn_gate", "layer.1.DenseReluDense.wi_0"}, {"ffn_up", "layer.1.DenseReluDense.wi"},
    {"ffn_down", "layer.1.DenseReluDense.wo"}};
constexpr Name kT5DecoderNames[] = {{"token_embd", "shared"},
                                    {"output_norm", "decoder.final_layer_norm"},
                                    {"attn_norm", "layer.0.layer_norm"},
                                    {"attn_q", "layer.0.SelfAttention.q"},
                                    {"attn_k", "layer.0.SelfAttention.k"},
                                    {"attn_v", "layer.0.SelfAttention.v"},
                                    {"attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"},
                                    {"attn_output", "layer.0.SelfAttention.o"},
                                    {"cross_attn_norm", "layer.1.layer_norm"},
                                    {"cross_attn_q", "layer.1.EncDecAttention.q"},
                                    {"cross_attn_k", "layer.1.EncDecAttention.k"},
                                    {"cross_attn_v", "layer.1.EncDecAttention.v"},
                                    {"cross_attn_o", "layer.1.EncDecAttention.o"},
                                    {"ffn_norm", "layer.2.layer_norm"},
                                    {"ffn_gate", "layer.2.DenseReluDense.wi_0"},
                                    {"ffn_up", "layer.2.DenseReluDense.wi"},
                                    {"ffn_down", "layer.2.DenseReluDense.wo"}};
constexpr Name kBartEncoderNames[] = {{"token_embd_norm", "encoder.layernorm_embedding"},
                                      {"position_embd", "encoder.embed_positions"},
                                      {"attn_output", "self_attn.out_proj"},
                                      {"attn_output_norm", "self_attn_layer_norm"},
                                      {"ffn_up", "fc1"},
                                      {"ffn_down", "fc2"},
                                      {"layer_output_norm", "final_layer_norm"}};
constexpr Name kBartDecoderNames[] = {{"token_embd", "shared"},
                                      {"token_embd_norm", "decoder.layernorm_embedding"},
                                      {"position_embd", "decoder.embed_positions"},
                                      {"attn_output", "self_attn.out_proj"},
                                      {"attn_output_norm", "self_attn_layer_norm"},
                                      {"cross_attn_norm", "encoder_attn_layer_norm"},
                                      {"cross_attn_q", "encoder_attn.q_proj"},
                                      {"cross_attn_k", "encoder_attn.k_proj"},
                                      {"cross_attn_v", "encoder_attn.v_proj"},
                                      {"cross_attn_o", "encoder_attn.out_proj"},
                                      {"ffn_up", "fc1"},
                                      {"ffn_down", "fc2"},
                                      {"layer_output_norm", "final_layer_norm"}};
constexpr Name kWhisperEncoderNames[] = {{"conv1", "encoder.conv1"},
                                         {"conv2", "encoder.conv2"},
                                         {"position_embd", "encoder.embed_positions"},
                                         {"output_norm", "encoder.layer_norm"},
                                         {"attn_norm", "self_attn_layer_norm"},
                                         {"attn_output", "self_attn.out_proj"},
                                         {"ffn_norm", "final_layer_norm"},
                                         {"ffn_up", "fc1"},
                                         {"ffn_down", "fc2"}};
constexpr Name kWhisperDecoderNames[] = {{"token_embd", "decoder.embed_tokens"},
                                         {"position_embd", "decoder.embed_positions"},
                                         {"output_norm", "decoder.layer_norm"},
                                         {"output", "proj_out"},
                                         {"attn_norm", "self_attn_layer_norm"},
                                         {"attn_output", "self_attn.out_proj"},
                                         {"cross_attn_norm", "encoder_attn_layer_norm"},
                                         {"cross_attn_q", "encoder_attn.q_proj"},
                                         {"cross_attn_k", "encoder_attn.k_proj"},
                                         {"cross_attn_v", "encoder_attn.v_proj"},
                                         {"cross_attn_o", "encoder_attn.out_proj"},
                                         {"ffn_norm", "final_layer_norm"},
                                         {"ffn_up", "fc1"},
                                         {"ffn_down", "fc2"}};
constexpr Name kSiglipNames[] = {{"patch_embd", "embeddings.patch_embedding"},
                                 {"position_embd", "embeddings.position_embedding"},
                                 {"output_norm", "post_layernorm"},
                                 {"output", "model.connector.modality_projection.proj"},
                                 {"attn_norm", "layer_norm1"},
                                 {"attn_output", "self_attn.out_proj"},
                                 {"ffn_norm", "layer_norm2"},
                                 {"ffn_up", "mlp.fc1"},
                                 {"ffn_down", "mlp.fc2"}};
constexpr Name kSiglipGguf[] = {{"patch_embd", "v.patch_embd"},
                                {"position_embd", "v.position_embd"},
                                {"output_norm", "v.post_ln"},
                                {"output", "mm.model.fc"},
                                {"attn_norm", "ln1"},
                                {"attn_output", "attn_out"},
                                {"ffn_norm", "ln2"}};
constexpr Name kT5EncoderGguf[] = {{"output_norm", "enc.output_norm"}, {"attn_output", "attn_o"}};
constexpr Name kT5DecoderGguf[] = {{"output_norm", "dec.output_norm"}, {"attn_output", "attn_o"}};

constexpr Name kLfm2Names[] = {{"output_norm", "embedding_norm"},
                               {"attn_norm", "operator_norm"},
                               {"attn_q_norm", "self_attn.q_layernorm"},
                               {"attn_k_norm", "self_attn.k_layernorm"},
                               {"attn_output", "self_attn.out_proj"},
                               {"shortconv_in", "conv.in_proj"},
                               {"shortconv_conv", "conv.conv"},
                               {"shortconv_out", "conv.out_proj"},
                               {"ffn_norm", "ffn_norm"},
                               {"ffn_gate", "feed_forward.w1"},
                               {"ffn_up", "feed_forward.w3"},
                               {"ffn_down", "feed_forward.w2"},
                               {"ffn_gate_inp", "feed_forward.gate"},
                               {"exp_probs_b", "feed_forward.expert_bias"},
                               {"ffn_gate_exps", "feed_forward.experts.#.w1"},
                               {"ffn_up_exps", "feed_forward.experts.#.w3"},
                               {"ffn_down_exps", "feed_forward.experts.#.w2"}};
constexpr Name kLfm2Gguf[] = {{"output_norm", "token_embd_norm"},
                              {"shortconv_in", "shortconv.in_proj"},
                              {"shortconv_conv", "shortconv.conv"},
                              {"shortconv_out", "shortconv.out_proj"}};

constexpr Name kQwen35Names[] = {{"delta_qkv", "linear_attn.in_proj_qkv"},
                                 {"delta_z", "linear_attn.in_proj_z"},
                                 {"delta_a", "linear_attn.in_proj_a"},
                                 {"delta_b", "linear_attn.in_proj_b"},
                                 {"delta_conv", "linear_attn.conv1d"},
                                 {"delta_decay", "linear_attn.A_log"},
                                 {"delta_bias", "linear_attn.dt_bias"},
                                 {"delta_norm", "linear_attn.norm"},
                                 {"delta_out", "linear_attn.out_proj"},
                                 {"ffn_gate_inp", "mlp.gate"},
                                 {"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
                                 {"ffn_gate_exps", "mlp.experts.#.gate_proj"},
                                 {"ffn_up_exps", "mlp.experts.#.up_proj"},
                                 {"ffn_down_exps", "mlp.experts.#.down_proj"},
                                 {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
                                 {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                 {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                 {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};
constexpr Name kQwen35Gguf[] = {{"delta_qkv", "attn_qkv"},     {"delta_z", "attn_gate"},
                                {"delta_a", "ssm_alpha"},      {"delta_b", "ssm_beta"},
                                {"delta_conv", "ssm_conv1d"},  {"delta_decay", "ssm_a"},
                                {"delta_bias", "ssm_dt.bias"}, {"delta_norm", "ssm_norm"},
                                {"delta_out", "ssm_out"},      {"ffn_norm", "post_attention_norm"}};

constexpr Name kGraniteHybridNames[] = {{"mamba_in", "mamba.in_proj"},
                                        {"mamba_conv", "mamba.conv1d"},
                                        {"mamba_decay", "mamba.A_log"},
                                        {"mamba_bias", "mamba.dt_bias"},
                                        {"mamba_skip", "mamba.D"},
                                        {"mamba_norm", "mamba.norm"},
                                        {"mamba_out", "mamba.out_proj"},
                                        {"ffn_up", "shared_mlp.input_linear"},
                                        {"ffn_down", "shared_mlp.output_linear"},
                                        {"ffn_gate_inp", "block_sparse_moe.router.layer"},
                                        {"ffn_gate_up_exps", "block_sparse_moe.input_linear"},
                                        {"ffn_down_exps", "block_sparse_moe.output_linear"},
                                        {"ffn_up_shexp", "shared_mlp.input_linear"},
                                        {"ffn_down_shexp", "shared_mlp.output_linear"}};
constexpr Name kGraniteHybridGguf[] = {
    {"mamba_in", "ssm_in"},  {"mamba_conv", "ssm_conv1d"}, {"mamba_decay", "ssm_a"}, {"mamba_bias", "ssm_dt.bias"},
    {"mamba_skip", "ssm_d"}, {"mamba_norm", "ssm_norm"},   {"mamba_out", "ssm_out"}};

constexpr LayerKind kQwen2 = {.qkv_bias = true};
constexpr LayerKind kQwen3 = {.norm_heads = true};
constexpr LayerKind kQwen35 = {.norm_heads = true, .gated_attention = true};
constexpr LayerKind kQwen35Moe = {.norm_heads = true, .shared_expert = SharedExpert::gated, .gated_attention = true};
constexpr LayerKind kGraniteHybrid = {.shared_expert = SharedExpert::plain};
constexpr LayerKind kGptOss = {
    .activation = Activation::clamped, .qkv_bias = true, .out_bias = true, .expert_bias = true, .sinks = true};
constexpr LayerKind kGemma = {.activation = Activation::gelu_tanh};
constexpr LayerKind kGemma2 = {.norm_branches = true, .activation = Activation::gelu_tanh};
constexpr LayerKind kGemma3 = {.norm_heads = true, .norm_branches = true, .activation = Activation::gelu_tanh};
constexpr LayerKind kGemma4 = {.norm_heads = true,
                               .norm_values = true,
                               .norm_branches = true,
                               .scaled = true,
                               .activation = Activation::gelu_tanh};
constexpr LayerKind with_biases(LayerKind kind) {
  kind.qkv_bias = kind.out_bias = kind.ffn_bias = true;
  return kind;
}
constexpr LayerKind kGpt2 = with_biases(
    {.norm = NormKind::layer, .positions = Positions::learned, .gated = false, .activation = Activation::gelu_tanh});
constexpr LayerKind kNeox = {
    .norm = NormKind::layer, .parallel = true, .gated = false, .activation = Activation::gelu, .ffn_bias = true};
constexpr LayerKind kBloom = with_biases({.norm = NormKind::layer,
                                          .embedding_norm = true,
                                          .positions = Positions::alibi,
                                          .gated = false,
                                          .activation = Activation::gelu_tanh});
constexpr LayerKind bert(bool decoder) {
  return with_biases({.norm = NormKind::layer,
                      .embedding_norm = true,
                      .norm_after = true,
                      .sees_all = !decoder,
                      .sees_source = decoder,
                      .positions = Positions::learned,
                      .gated = false,
                      .activation = Activation::gelu});
}
constexpr LayerKind kNomicBert = {
    .norm = NormKind::layer, .embedding_norm = true, .typed = true, .norm_after = true, .sees_all = true};
constexpr LayerKind kModernBert = {.norm = NormKind::layer,
                                   .norm_bias = false,
                                   .embedding_norm = true,
                                   .first_unnormed = true,
                                   .sees_all = true,
                                   .activation = Activation::gelu};
constexpr LayerKind kGemmaEmbedding = {
    .norm_heads = true, .norm_branches = true, .sees_all = true, .activation = Activation::gelu_tanh};
constexpr LayerKind kBert = bert(false), kBartDecoder = bert(true);
constexpr LayerKind kSiglip = with_biases({.norm = NormKind::layer,
                                           .sees_all = true,
                                           .positions = Positions::learned,
                                           .gated = false,
                                           .activation = Activation::gelu_tanh});
constexpr LayerKind whisper(bool decoder) {
  LayerKind kind = with_biases({.norm = NormKind::layer,
                                .sees_all = !decoder,
                                .sees_source = decoder,
                                .positions = Positions::learned,
                                .gated = false,
                                .activation = Activation::gelu});
  kind.key_bias = false;
  return kind;
}
constexpr LayerKind kWhisperEncoder = whisper(false), kWhisperDecoder = whisper(true);
constexpr LayerKind kT5Encoder = {
    .sees_all = true, .positions = Positions::bucketed, .gated = false, .activation = Activation::relu};
constexpr LayerKind kT5Decoder = {
    .sees_source = true, .positions = Positions::bucketed, .gated = false, .activation = Activation::relu};
constexpr LayerKind kXglm = with_biases(
    {.norm = NormKind::layer, .positions = Positions::sinusoidal, .gated = false, .activation = Activation::gelu});
// PaLM's (Chowdhery et al. 2022): with one key/value head it is that very layer.
constexpr LayerKind kCohere = {.norm = NormKind::layer, .norm_bias = false, .parallel = true, .shared_norm = true};

// The encoders of encoder-decoders.
constexpr Family kT5EncoderFamily = {.architecture = "t5",
                                     .model_type = "t5",
                                     .layer_kind = kT5Encoder,
                                     .prefix = "",
                                     .layers = "encoder.block.",
                                     .gguf_layers = "enc.blk.",
                                     .names = kT5EncoderNames,
                                     .gguf_names = kT5EncoderGguf};
constexpr Family kBartEncoderFamily = {.architecture = "",
                                       .model_type = "bart",
                                       .layer_kind = kBert,
                                       .layers = "encoder.layers.",
                                       .names = kBartEncoderNames,
                                       .first_position = 2};

constexpr Family kWhisperEncoderFamily = {.architecture = "",
                                          .model_type = "whisper",
                                          .layer_kind = kWhisperEncoder,
                                          .layers = "encoder.layers.",
                                          .names = kWhisperEncoderNames};

constexpr Family kImageFamily = {.architecture = "clip",
                                 .model_type = "idefics3",
                                 .layer_kind = kSiglip,
                                 .prefix = "model.vision_model.",
                                 .layers = "encoder.layers.",
                                 .gguf_layers = "v.blk.",
                                 .names = kSiglipNames,
                                 .gguf_names = kSiglipGguf};

constexpr Family kFamilies[] = {
    {.architecture = "llama", .model_type = "llama", .gguf_pairs = ops::Pairs::adjacent, .experts = true},
    {.architecture = "llama", .model_type = "mistral", .gguf_pairs = ops::Pairs::adjacent},
    {.architecture = "llama",
     .model_type = "mixtral",
     .gguf_pairs = ops::Pairs::adjacent,
     .names = kMixtralNames,
     .experts = true},
    {.architecture = "qwen2", .model_type = "qwen2", .layer_kind = kQwen2},
    {.architecture = "qwen3", .model_type = "qwen3", .layer_kind = kQwen3},
    {.architecture = "qwen3moe",
     .model_type = "qwen3_moe",
     .layer_kind = kQwen3,
     .names = kQwen3MoeNames,
     .experts = true},
    {.architecture = "gpt-oss",
     .model_type = "gpt_oss",
     .layer_kind = kGptOss,
     .global_every = 2,
     .rope_base = 150000,
     .whole_yarn = false,
     .names = kGptOssNames,
     .gguf_names = kGptOssGguf,
     .experts = true},
    {.architecture = "qwen35",
     .model_type = "qwen3_5_text",
     .layer_kind = kQwen35,
     .names = kQwen35Names,
     .gguf_names = kQwen35Gguf,
     .norms_lack_one = true,
     .rotary_share = 0.25,
     .gated_delta = true},
    {.architecture = "qwen35moe",
     .model_type = "qwen3_5_moe_text",
     .layer_kind = kQwen35Moe,
     .names = kQwen35Names,
     .gguf_names = kQwen35Gguf,
     .norms_lack_one = true,
     .rotary_share = 0.25,
     .gated_delta = true,
     .experts = true},
    {.architecture = "granite", .model_type = "granite", .gguf_pairs = ops::Pairs::adjacent, .multipliers = true},
    {.architecture = "granitehybrid",
     .model_type = "granitemoehybrid",
     .layer_kind = kGraniteHybrid,
     .gguf_pairs = ops::Pairs::adjacent,
     .names = kGraniteHybridNames,
     .gguf_names = kGraniteHybridGguf,
     .multipliers = true,
     .mamba2 = true,
     .experts = true},
    {.architecture = "lfm2",
     .model_type = "lfm2",
     .layer_kind = kQwen3,
     .tied = true,
     .rope_base = 1e6,
     .names = kLfm2Names,
     .gguf_names = kLfm2Gguf,
     .short_conv = true},
    {.architecture = "lfm2moe",
     .model_type = "lfm2_moe",
     .layer_kind = kQwen3,
     .tied = true,
     .rope_base = 1e6,
     .names = kLfm2Names,
     .gguf_names = kLfm2Gguf,
     .short_conv = true,
     .experts = true},
    {.architecture = "smollm3",
     .model_type = "smollm3",
     .tied = true,
     .gguf_pairs = ops::Pairs::adjacent,
     .no_rope_every = 4},
    {.architecture = "gemma", .model_type = "gemma", .layer_kind = kGemma, .tied = true, .gemma = true},
    {.architecture = "gemma2",
     .model_type = "gemma2",
     .layer_kind = kGemma2,
     .tied = true,
     .gemma = true,
     .global_every = 2,
     .names = kGemma2Names},
    {.architecture = "gemma3",
     .model_type = "gemma3_text",
     .layer_kind = kGemma3,
     .tied = true,
     .gemma = true,
     .global_every = 6,
     .rope_base = 1e6,
     .local_rope_base = 10000,
     .names = kGemma2Names},
    {.architecture = "gemma-embedding",
     .model_type = "",  // a gemma3_text that says so
     .layer_kind = kGemmaEmbedding,
     .tied = true,
     .gemma = true,
     .global_every = 6,
     .rope_base = 1e6,
     .local_rope_base = 10000},
    {.architecture = "gemma4",
     .model_type = "gemma4_text",
     .layer_kind = kGemma4,
     .tied = true,
     .gemma = true,
     .global_every = 6,
     .rope_base = 1e6,
     .local_rope_base = 10000,
     .names = kGemma4Names,
     .gguf_names = kGemma4Gguf,
     .gemma4 = true},
    {.architecture = "phi3", .model_type = "phi3", .names = kPhi3Names},
    {.architecture = "gpt2",
     .model_type = "gpt2",
     .layer_kind = kGpt2,
     .tied = true,
     .prefix = "transformer.",
     .layers = "h.",
     .names = kGpt2Names,
     .transposed = true},
    {.architecture = "gptneox",
     .model_type = "gpt_neox",
     .layer_kind = kNeox,
     .prefix = "gpt_neox.",
     .names = kNeoxNames,
     .qkv_by_head = true},
    {.architecture = "bloom",
     .model_type = "bloom",
     .layer_kind = kBloom,
     .tied = true,
     .prefix = "transformer.",
     .layers = "h.",
     .names = kBloomNames,
     .qkv_by_head = true},
    {.architecture = "command-r",
     .model_type = "cohere",
     .layer_kind = kCohere,
     .tied = true,
     .pairs = ops::Pairs::adjacent,
     .gguf_pairs = ops::Pairs::adjacent},
    {.architecture = "", .model_type = "xglm", .layer_kind = kXglm, .tied = true, .names = kXglmNames},
    {.architecture = "bert",
     .model_type = "bert",
     .layer_kind = kBert,
     .tied = true,
     .prefix = "bert.",
     .layers = "encoder.layer.",
     .names = kBertNames},
    {.architecture = "nomic-bert",
     .model_type = "nomic_bert",
     .layer_kind = kNomicBert,
     .tied = true,
     .rope_base = 1000,
     .prefix = "",
     .layers = "encoder.layers.",
     .names = kNomicBertNames},
    {.architecture = "modern-bert",
     .model_type = "modernbert",
     .layer_kind = kModernBert,
     .tied = true,
     .global_every = 3,
     .global_first = true,
     .rope_base = 160000,
     .local_rope_base = 10000,
     .names = kModernBertNames},
    {.architecture = "t5",
     .model_type = "t5",
     .layer_kind = kT5Decoder,
     .tied = true,
     .prefix = "",
     .layers = "decoder.block.",
     .gguf_layers = "dec.blk.",
     .names = kT5DecoderNames,
     .gguf_names = kT5DecoderGguf,
     .encoder = &kT5EncoderFamily},
    {.architecture = "",
     .model_type = "bart",
     .layer_kind = kBartDecoder,
     .tied = true,
     .layers = "decoder.layers.",
     .names = kBartDecoderNames,
     .first_position = 2,
     .encoder = &kBartEncoderFamily},
    {.architecture = "",
     .model_type = "whisper",
     .layer_kind = kWhisperDecoder,
     .tied = true,
     .layers = "decoder.layers.",
     .names = kWhisperDecoderNames,
     .encoder = &kWhisperEncoderFamily,
     .sound = true},
};

// The name of a role by the first list that has one; else the role's own.
std::string_view stem(std::initializer_list<TensorNames> lists, std::string_view role) {
  for (const TensorNames names : lists)
    for (const auto& [known, name] : names)
      if (known == role) return name;
  return role;
}

}  // namespace

const Family& find_family(ModelFile::Kind kind, const std::string& name, const std::string& place) {
  const bool gguf = kind == ModelFile::Kind::gguf;
  std::string all;
  for (const Family& family : kFamilies) {
    const std::string_view known = gguf ? family.architecture : family.model_type;
    if (known.empty()) continue;
    if (known == name) return family;
    if (all.find(std::string(known) + ",") == all.npos) all += (all.empty() ? "" : " ") + std::string(known) + ",";
  }
  all.pop_back();
  throw Error(Code::unsupported,
              std::string("not supported: ") + (gguf ? "architecture '" : "model type '") + name + "'", place,
              "Weft runs " + all);
}

const Family& image_family() { return kImageFamily; }

std::string tensor_name(ModelFile::Kind kind, const Family& family, std::string_view role, int layer,
                        std::string_view what) {
  std::string name;
  if (kind == ModelFile::Kind::gguf) {
    if (layer >= 0) name += std::string(family.gguf_layers) + std::to_string(layer) + ".";
    name += stem({family.gguf_names}, role);
  } else {
    if (role != "output") name += family.prefix;  // the head is no part of the body
    if (layer >= 0) name += std::string(family.layers) + std::to_string(layer) + ".";
    name += stem({family.names, kLlamaNames}, role);
  }
  return what.empty() ? name : name + "." + std::string(what);
}

}  // namespace weft
