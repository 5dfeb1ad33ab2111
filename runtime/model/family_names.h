// Tensor names of the families, as Hugging Face's files and GGUF files have them. Only for family.cpp.
#pragma once

#include <string_view>
#include <utility>

namespace weft {

using TensorName = std::pair<std::string_view, std::string_view>;  // role, name

inline constexpr TensorName kLlamaNames[] = {{"token_embd", "embed_tokens"},
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
inline constexpr TensorName kGemma2Names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                              {"ffn_norm", "pre_feedforward_layernorm"},
                                              {"post_ffw_norm", "post_feedforward_layernorm"}};
inline constexpr TensorName kOlmo2Names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                             {"post_ffw_norm", "post_feedforward_layernorm"}};
inline constexpr TensorName kGlm4Names[] = {{"post_attention_norm", "post_self_attn_layernorm"},
                                            {"post_ffw_norm", "post_mlp_layernorm"},
                                            {"ffn_up", "mlp.gate_up_proj"}};
inline constexpr TensorName kHunyuanNames[] = {{"attn_q_norm", "self_attn.query_layernorm"},
                                               {"attn_k_norm", "self_attn.key_layernorm"}};
inline constexpr TensorName kOptNames[] = {{"position_embd", "embed_positions"},
                                           {"output_norm", "final_layer_norm"},
                                           {"attn_norm", "self_attn_layer_norm"},
                                           {"attn_output", "self_attn.out_proj"},
                                           {"ffn_norm", "final_layer_norm"},
                                           {"ffn_up", "fc1"},
                                           {"ffn_down", "fc2"}};
inline constexpr TensorName kExaoneNames[] = {{"token_embd", "wte"},
                                              {"output_norm", "ln_f"},
                                              {"attn_norm", "ln_1"},
                                              {"attn_q", "attn.attention.q_proj"},
                                              {"attn_k", "attn.attention.k_proj"},
                                              {"attn_v", "attn.attention.v_proj"},
                                              {"attn_output", "attn.attention.out_proj"},
                                              {"ffn_norm", "ln_2"},
                                              {"ffn_gate", "mlp.c_fc_0"},
                                              {"ffn_up", "mlp.c_fc_1"},
                                              {"ffn_down", "mlp.c_proj"}};
inline constexpr TensorName kGptjNames[] = {{"token_embd", "wte"},
                                            {"output_norm", "ln_f"},
                                            {"attn_norm", "ln_1"},
                                            {"attn_q", "attn.q_proj"},
                                            {"attn_k", "attn.k_proj"},
                                            {"attn_v", "attn.v_proj"},
                                            {"attn_output", "attn.out_proj"},
                                            {"ffn_up", "mlp.fc_in"},
                                            {"ffn_down", "mlp.fc_out"}};
inline constexpr TensorName kMptNames[] = {
    {"token_embd", "wte"},     {"output_norm", "norm_f"},        {"attn_norm", "norm_1"},
    {"attn_qkv", "attn.Wqkv"}, {"attn_output", "attn.out_proj"}, {"ffn_norm", "norm_2"},
    {"ffn_up", "ffn.up_proj"}, {"ffn_down", "ffn.down_proj"}};
inline constexpr TensorName kStarcoder2Names[] = {{"ffn_up", "mlp.c_fc"}, {"ffn_down", "mlp.c_proj"}};
inline constexpr TensorName kPhiNames[] = {{"output_norm", "final_layernorm"},
                                           {"attn_output", "self_attn.dense"},
                                           {"ffn_up", "mlp.fc1"},
                                           {"ffn_down", "mlp.fc2"}};
inline constexpr TensorName kGemma4Names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                              {"ffn_norm", "pre_feedforward_layernorm"},
                                              {"post_ffw_norm", "post_feedforward_layernorm"},
                                              {"per_layer_table", "embed_tokens_per_layer"},
                                              {"per_layer_proj", "per_layer_model_projection"},
                                              {"per_layer_norm", "per_layer_projection_norm"},
                                              {"layer_gate", "per_layer_input_gate"},
                                              {"layer_proj", "per_layer_projection"},
                                              {"layer_post_norm", "post_per_layer_input_norm"},
                                              {"layer_scale", "layer_scalar"},
                                              {"assistant_in", "pre_projection"},
                                              {"assistant_out", "post_projection"}};
inline constexpr TensorName kEmbeddingGemma2Names[] = {{"post_attention_norm", "post_attention_layernorm"},
                                                       {"ffn_norm", "pre_feedforward_layernorm"},
                                                       {"post_ffw_norm", "post_feedforward_layernorm"},
                                                       {"per_layer_proj", "ple.per_layer_model_projection"},
                                                       {"per_layer_norm", "ple.per_layer_projection_norm"},
                                                       {"layer_gate", "ple_block.per_layer_input_gate"},
                                                       {"layer_proj", "ple_block.per_layer_projection"},
                                                       {"layer_post_norm", "ple_block.post_per_layer_input_norm"},
                                                       {"layer_scale", "layer_scalar"}};
inline constexpr TensorName kGemma4Gguf[] = {{"per_layer_table", "per_layer_token_embd"},
                                             {"per_layer_proj", "per_layer_model_proj"},
                                             {"per_layer_norm", "per_layer_proj_norm"},
                                             {"layer_gate", "inp_gate"},
                                             {"layer_proj", "proj"},
                                             {"layer_post_norm", "post_norm"},
                                             {"layer_scale", "layer_output_scale.weight"}};
inline constexpr TensorName kMixtralNames[] = {{"ffn_gate_inp", "block_sparse_moe.gate"},
                                               {"ffn_gate_exps", "block_sparse_moe.experts.#.w1"},
                                               {"ffn_up_exps", "block_sparse_moe.experts.#.w3"},
                                               {"ffn_down_exps", "block_sparse_moe.experts.#.w2"}};
inline constexpr TensorName kQwen3MoeNames[] = {{"ffn_gate_inp", "mlp.gate"},
                                                {"ffn_gate_exps", "mlp.experts.#.gate_proj"},
                                                {"ffn_up_exps", "mlp.experts.#.up_proj"},
                                                {"ffn_down_exps", "mlp.experts.#.down_proj"}};
inline constexpr TensorName kGptOssNames[] = {{"attn_sinks", "self_attn.sinks"},
                                              {"ffn_gate_inp", "mlp.router"},
                                              {"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
                                              {"ffn_down_exps", "mlp.experts.down_proj"}};
inline constexpr TensorName kPostAttentionGguf[] = {{"ffn_norm", "post_attention_norm"}};
inline constexpr TensorName kPhi3Names[] = {{"ffn_up", "mlp.gate_up_proj"}};
inline constexpr TensorName kGpt2Names[] = {
    {"token_embd", "wte"},          {"position_embd", "wpe"},    {"output_norm", "ln_f"},
    {"attn_norm", "ln_1"},          {"attn_qkv", "attn.c_attn"}, {"ffn_norm", "ln_2"},
    {"attn_output", "attn.c_proj"}, {"ffn_up", "mlp.c_fc"},      {"ffn_down", "mlp.c_proj"}};
inline constexpr TensorName kNeoxNames[] = {{"token_embd", "embed_in"},
                                            {"output_norm", "final_layer_norm"},
                                            {"output", "embed_out"},
                                            {"attn_qkv", "attention.query_key_value"},
                                            {"attn_output", "attention.dense"},
                                            {"ffn_up", "mlp.dense_h_to_4h"},
                                            {"ffn_down", "mlp.dense_4h_to_h"}};

inline constexpr TensorName kBloomNames[] = {{"token_embd", "word_embeddings"},
                                             {"token_embd_norm", "word_embeddings_layernorm"},
                                             {"output_norm", "ln_f"},
                                             {"attn_qkv", "self_attention.query_key_value"},
                                             {"attn_output", "self_attention.dense"},
                                             {"ffn_up", "mlp.dense_h_to_4h"},
                                             {"ffn_down", "mlp.dense_4h_to_h"}};
inline constexpr TensorName kXglmNames[] = {{"output_norm", "layer_norm"},
                                            {"attn_norm", "self_attn_layer_norm"},
                                            {"attn_output", "self_attn.out_proj"},
                                            {"ffn_norm", "final_layer_norm"},
                                            {"ffn_up", "fc1"},
                                            {"ffn_down", "fc2"}};
inline constexpr TensorName kBertNames[] = {{"token_embd", "embeddings.word_embeddings"},
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
inline constexpr TensorName kNomicBertNames[] = {{"token_embd", "embeddings.word_embeddings"},
                                                 {"token_embd_norm", "emb_ln"},
                                                 {"token_types", "embeddings.token_type_embeddings"},
                                                 {"attn_qkv", "attn.Wqkv"},
                                                 {"attn_output", "attn.out_proj"},
                                                 {"attn_output_norm", "norm1"},
                                                 {"ffn_up", "mlp.fc11"},
                                                 {"ffn_gate", "mlp.fc12"},
                                                 {"ffn_down", "mlp.fc2"},
                                                 {"layer_output_norm", "norm2"}};
inline constexpr TensorName kModernBertNames[] = {{"token_embd", "embeddings.tok_embeddings"},
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

inline constexpr TensorName kT5EncoderNames[] = {
    {"output_norm", "encoder.final_layer_norm"}, {"attn_norm", "layer.0.layer_norm"},
    {"attn_q", "layer.0.SelfAttention.q"},       {"attn_k", "layer.0.SelfAttention.k"},
    {"attn_v", "layer.0.SelfAttention.v"},       {"attn_rel_b", "layer.0.SelfAttention.relative_attention_bias"},
    {"attn_output", "layer.0.SelfAttention.o"},  {"ffn_norm", "layer.1.layer_norm"},
    {"ffn_gate", "layer.1.DenseReluDense.wi_0"}, {"ffn_up", "layer.1.DenseReluDense.wi"},
    {"ffn_down", "layer.1.DenseReluDense.wo"}};
inline constexpr TensorName kT5DecoderNames[] = {{"token_embd", "shared"},
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
inline constexpr TensorName kBartEncoderNames[] = {{"token_embd_norm", "encoder.layernorm_embedding"},
                                                   {"position_embd", "encoder.embed_positions"},
                                                   {"attn_output", "self_attn.out_proj"},
                                                   {"attn_output_norm", "self_attn_layer_norm"},
                                                   {"ffn_up", "fc1"},
                                                   {"ffn_down", "fc2"},
                                                   {"layer_output_norm", "final_layer_norm"}};
inline constexpr TensorName kBartDecoderNames[] = {{"token_embd", "shared"},
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
inline constexpr TensorName kWhisperEncoderNames[] = {{"conv1", "encoder.conv1"},
                                                      {"conv2", "encoder.conv2"},
                                                      {"position_embd", "encoder.embed_positions"},
                                                      {"output_norm", "encoder.layer_norm"},
                                                      {"attn_norm", "self_attn_layer_norm"},
                                                      {"attn_output", "self_attn.out_proj"},
                                                      {"ffn_norm", "final_layer_norm"},
                                                      {"ffn_up", "fc1"},
                                                      {"ffn_down", "fc2"}};
inline constexpr TensorName kWhisperDecoderNames[] = {{"token_embd", "decoder.embed_tokens"},
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
inline constexpr TensorName kSiglipNames[] = {{"patch_embd", "embeddings.patch_embedding"},
                                              {"position_embd", "embeddings.position_embedding"},
                                              {"output_norm", "post_layernorm"},
                                              {"output", "model.connector.modality_projection.proj"},
                                              {"attn_norm", "layer_norm1"},
                                              {"attn_output", "self_attn.out_proj"},
                                              {"ffn_norm", "layer_norm2"},
                                              {"ffn_up", "mlp.fc1"},
                                              {"ffn_down", "mlp.fc2"}};
inline constexpr TensorName kSiglipGguf[] = {{"patch_embd", "v.patch_embd"},
                                             {"position_embd", "v.position_embd"},
                                             {"output_norm", "v.post_ln"},
                                             {"output", "mm.model.fc"},
                                             {"attn_norm", "ln1"},
                                             {"attn_output", "attn_out"},
                                             {"ffn_norm", "ln2"}};
inline constexpr TensorName kQwen3VlImageNames[] = {
    {"patch_embd", "patch_embed.proj"}, {"position_embd", "pos_embed"},       {"output_norm", "merger.norm"},
    {"merger_up", "merger.linear_fc1"}, {"merger_down", "merger.linear_fc2"}, {"deepstack_norm", "norm"},
    {"deepstack_up", "linear_fc1"},     {"deepstack_down", "linear_fc2"},     {"attn_norm", "norm1"},
    {"attn_qkv", "attn.qkv"},           {"attn_output", "attn.proj"},         {"ffn_norm", "norm2"},
    {"ffn_up", "mlp.linear_fc1"},       {"ffn_down", "mlp.linear_fc2"}};
inline constexpr TensorName kQwen3VlImageGguf[] = {{"patch_embd", "v.patch_embd"},
                                                   {"position_embd", "v.position_embd"},
                                                   {"output_norm", "v.post_ln"},
                                                   {"merger_up", "mm.0"},
                                                   {"merger_down", "mm.2"},
                                                   {"deepstack_norm", "norm"},
                                                   {"deepstack_up", "fc1"},
                                                   {"deepstack_down", "fc2"},
                                                   {"attn_norm", "ln1"},
                                                   {"attn_output", "attn_out"},
                                                   {"ffn_norm", "ln2"}};
inline constexpr TensorName kGemma3ImageNames[] = {{"patch_embd", "embeddings.patch_embedding"},
                                                   {"position_embd", "embeddings.position_embedding"},
                                                   {"output_norm", "post_layernorm"},
                                                   {"output", "model.connector.mm_input_projection"},
                                                   {"soft_norm", "model.connector.mm_soft_emb_norm"},
                                                   {"attn_norm", "layer_norm1"},
                                                   {"attn_output", "self_attn.out_proj"},
                                                   {"ffn_norm", "layer_norm2"},
                                                   {"ffn_up", "mlp.fc1"},
                                                   {"ffn_down", "mlp.fc2"}};
inline constexpr TensorName kGemma3ImageGguf[] = {
    {"patch_embd", "v.patch_embd"},    {"position_embd", "v.position_embd"},
    {"output_norm", "v.post_ln"},      {"output", "mm.input_projection"},
    {"soft_norm", "mm.soft_emb_norm"}, {"attn_norm", "ln1"},
    {"attn_output", "attn_out"},       {"ffn_norm", "ln2"}};
inline constexpr TensorName kT5EncoderGguf[] = {{"output_norm", "enc.output_norm"}, {"attn_output", "attn_o"}};
inline constexpr TensorName kT5DecoderGguf[] = {{"output_norm", "dec.output_norm"}, {"attn_output", "attn_o"}};

inline constexpr TensorName kLfm2Names[] = {{"output_norm", "embedding_norm"},
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
inline constexpr TensorName kLfm3Names[] = {
    {"output_norm", "embedding_norm"},    {"attn_norm", "operator_norm"},
    {"attn_gate", "self_attn.gate_proj"}, {"post_attention_norm", "post_operator_norm"},
    {"shortconv_in", "conv.in_proj"},     {"shortconv_conv", "conv.conv"},
    {"shortconv_out", "conv.out_proj"},   {"ffn_norm", "ffn_norm"},
    {"ffn_gate", "feed_forward.w1"},      {"ffn_up", "feed_forward.w3"},
    {"ffn_down", "feed_forward.w2"},      {"post_ffw_norm", "post_ffn_norm"}};
inline constexpr TensorName kLfm2Gguf[] = {{"output_norm", "token_embd_norm"},
                                           {"shortconv_in", "shortconv.in_proj"},
                                           {"shortconv_conv", "shortconv.conv"},
                                           {"shortconv_out", "shortconv.out_proj"}};

inline constexpr TensorName kQwen35Names[] = {{"delta_qkv", "linear_attn.in_proj_qkv"},
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
inline constexpr TensorName kQwen35Gguf[] = {{"delta_qkv", "attn_qkv"},     {"delta_z", "attn_gate"},
                                             {"delta_a", "ssm_alpha"},      {"delta_b", "ssm_beta"},
                                             {"delta_conv", "ssm_conv1d"},  {"delta_decay", "ssm_a"},
                                             {"delta_bias", "ssm_dt.bias"}, {"delta_norm", "ssm_norm"},
                                             {"delta_out", "ssm_out"},      {"ffn_norm", "post_attention_norm"}};

inline constexpr TensorName kGraniteHybridNames[] = {{"mamba_in", "mamba.in_proj"},
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
inline constexpr TensorName kGraniteHybridGguf[] = {
    {"mamba_in", "ssm_in"},  {"mamba_conv", "ssm_conv1d"}, {"mamba_decay", "ssm_a"}, {"mamba_bias", "ssm_dt.bias"},
    {"mamba_skip", "ssm_d"}, {"mamba_norm", "ssm_norm"},   {"mamba_out", "ssm_out"}};

}  // namespace weft
