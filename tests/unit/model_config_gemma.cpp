// Configurations of Gemma's generations, from config.json and GGUF metadata.
#include <gtest/gtest.h>

#include <vector>

#include "unit/small_configs.h"

namespace weft {
namespace {

TEST(ModelConfig, OlderGemma3) {
  const Config c = huggingface({{"model_type", "gemma3_text"},
                                {"head_dim", 16},
                                {"sliding_window", 24},
                                {"sliding_window_pattern", 3},
                                {"rope_theta", 1e6},
                                {"rope_local_base_freq", 1e4},
                                {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                                {"query_pre_attn_scalar", 64},
                                {"hidden_activation", "gelu_pytorch_tanh"}});
  ASSERT_EQ(c.layer_configs.size(), 7u);
  for (uint32_t layer = 0; layer < 7; ++layer) {
    const bool global = layer % 3 == 2;
    EXPECT_EQ(c.attention_of(layer).window, global ? 0u : 24u) << layer;
    EXPECT_EQ(c.attention_of(layer).rope, global ? 0u : 1u) << layer;
  }
  EXPECT_DOUBLE_EQ(c.ropes[0].frequencies[0], 1 / 8.0);
  EXPECT_DOUBLE_EQ(c.ropes[1].frequencies[0], 1);
  EXPECT_DOUBLE_EQ(c.ropes[1].frequencies[4], 1e-2);
  EXPECT_FLOAT_EQ(c.attention_scale, 1 / 8.0f);
  EXPECT_FLOAT_EQ(c.embedding_scale, 8);
  EXPECT_EQ(c.norm_offset, 1);
}

TEST(ModelConfig, GgufOfGemma) {
  Config c = gguf("gemma3", {{"attention.key_length", 16}, {"attention.sliding_window", 24}});
  EXPECT_EQ(c.norm_offset, 0);  // llama.cpp's converter has added it
  EXPECT_FLOAT_EQ(c.embedding_scale, 8);
  EXPECT_FLOAT_EQ(c.attention_scale, 0.25f);
  for (uint32_t layer = 0; layer < 7; ++layer) EXPECT_EQ(c.attention_of(layer).window, layer == 5 ? 0u : 24u) << layer;
  EXPECT_DOUBLE_EQ(c.ropes[1].frequencies[4], 1e-2);
  const json flags = {true, false, true, true, false, true, true};
  c = gguf("gemma3", {{"attention.sliding_window", 24}, {"attention.sliding_window_pattern", flags}});
  for (uint32_t layer = 0; layer < 7; ++layer)
    EXPECT_EQ(c.attention_of(layer).window, flags[layer].get<bool>() ? 24u : 0u) << layer;
  expect_refusal(Code::bad_file, "sliding_window_pattern", [] {
    gguf("gemma3", {{"attention.sliding_window_pattern", {true, false}}});
  });
  // Ollama's first files have other names of the bases, and a cap that the model does not have.
  c = gguf("gemma3", {{"attention.sliding_window", 24},
                      {"rope.global.freq_base", 2e6},
                      {"rope.local.freq_base", 1e4},
                      {"final_logit_softcapping", 30}});
  EXPECT_DOUBLE_EQ(c.ropes[0].base, 2e6);
  EXPECT_DOUBLE_EQ(c.ropes[1].base, 1e4);
  EXPECT_EQ(c.logit_cap, 0);
  c = gguf("gemma3", {{"attention.sliding_window", 24}, {"final_logit_softcapping", 30}});
  EXPECT_DOUBLE_EQ(c.ropes[0].base, 1e6);
  EXPECT_DOUBLE_EQ(c.ropes[1].base, 1e4);
  EXPECT_EQ(c.logit_cap, 30);
  // 27B: the scale is that of the width's share of a head.
  EXPECT_FLOAT_EQ(gguf("gemma2", {{"block_count", 46}, {"attention.key_length", 64}}).attention_scale, 0.25f);
}

json gemma4(const json& changes = json::object()) {
  json metadata = {
      {"model_type", "gemma4_text"},
      {"num_key_value_heads", 2},
      {"head_dim", 16},
      {"global_head_dim", 64},
      {"sliding_window", 24},
      {"num_kv_shared_layers", 2},
      {"layer_types",
       {"sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention",
        "sliding_attention", "full_attention"}},
      {"rope_parameters",
       {{"full_attention",
         {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}, {"factor", 2.0}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}};
  metadata.update(changes);
  return metadata;
}

void expect_gemma4(const Config& c) {
  EXPECT_EQ(c.attention_scale, 1);
  EXPECT_EQ(c.norm_offset, 0);
  for (uint32_t layer = 0; layer < 7; ++layer) {
    SCOPED_TRACE(layer);
    const AttentionConfig& own = c.attention_of(layer);
    const bool global = layer == 1 || layer == 4 || layer == 6;
    EXPECT_EQ(c.shape_of(own).head_dim, global ? 64u : 16u);
    EXPECT_EQ(own.rotary_dim, global ? 64u : 16u);
    EXPECT_EQ(own.window, global ? 0u : 24u);
    EXPECT_EQ(own.source, layer == 5 ? std::optional(3u) : layer == 6 ? std::optional(4u) : std::nullopt);
  }
  ASSERT_EQ(c.ropes[0].frequencies.size(), 32u);  // of which a quarter turns
  EXPECT_DOUBLE_EQ(c.ropes[0].frequencies[7], std::pow(1e6, -7.0 / 32) / 2);
  EXPECT_EQ(c.ropes[0].frequencies[8], 0);
  EXPECT_DOUBLE_EQ(c.ropes[1].frequencies.at(4), 1e-2);
}

TEST(ModelConfig, Gemma4) {
  Config c = huggingface(gemma4());
  expect_gemma4(c);
  EXPECT_EQ(c.layer_input, 256u);
  EXPECT_EQ(c.shape_of(c.attention_of(1)).kv_heads, 2u);
  // As Transformers 5.24 writes it: by layer.
  const json wide = {{"head_dim", 64}};
  c = huggingface(gemma4({{"global_head_dim", 999}, {"per_layer_config", {{"1", wide}, {"4", wide}, {"6", wide}}}}));
  expect_gemma4(c);
  c = huggingface(gemma4({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}}));
  EXPECT_EQ(c.shape_of(c.attention_of(1)).kv_heads, 1u);
  EXPECT_TRUE(c.attention_of(1).keys_are_values);
  EXPECT_FALSE(c.attention_of(0).keys_are_values);
  c = huggingface(gemma4({{"use_double_wide_mlp", true}, {"use_bidirectional_attention", "vision"}}));
  EXPECT_EQ(c.ffn_of(4), 128u);
  EXPECT_EQ(c.ffn_of(5), 256u);
  json types = gemma4()["layer_types"];
  types[6] = "sliding_attention";  // Transformers takes it for another
  expect_gemma4(huggingface(gemma4({{"layer_types", types}})));
}

TEST(ModelConfig, RefusesOtherGemma4) {
  const json wide = {{"head_dim", 64}};
  expect_refusal(Code::unsupported, "experts", [] { huggingface(gemma4({{"enable_moe_block", true}})); });
  expect_refusal(Code::unsupported, "experts", [] {
    gguf("gemma4", {{"attention.head_count_kv", 2}, {"expert_count", 8}});
  });
  expect_refusal(Code::bad_file, "use_bidirectional_attention", [] {
    huggingface(gemma4({{"use_bidirectional_attention", "all"}}));
  });
  expect_refusal(Code::bad_file, "rope_parameters", [] { huggingface(gemma4({{"rope_parameters", nullptr}})); });
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    json ropes = gemma4()["rope_parameters"];
    ropes.erase(kind);
    expect_refusal(Code::bad_file, kind, [&] { huggingface(gemma4({{"rope_parameters", ropes}})); });
  }
  expect_refusal(Code::bad_file, "num_kv_shared_layers", [] { huggingface(gemma4({{"num_kv_shared_layers", 7}})); });
  expect_refusal(Code::bad_file, "shares the cache", [] { huggingface(gemma4({{"num_kv_shared_layers", 6}})); });
  expect_refusal(Code::bad_file, "window", [] { huggingface(gemma4({{"sliding_window", 0}})); });
  expect_refusal(Code::unsupported, "different heads", [&] {
    huggingface(gemma4({{"per_layer_config", {{"1", wide}, {"6", wide}}}}));
  });
  expect_refusal(Code::unsupported, "'intermediate_size'", [&] {
    huggingface(gemma4({{"per_layer_config", {{"1", {{"intermediate_size", 64}}}}}}));
  });
  expect_refusal(Code::unsupported, "'seven'", [&] { huggingface(gemma4({{"per_layer_config", {{"seven", wide}}}})); });
  expect_refusal(Code::unsupported, "activation", [] { huggingface(gemma4({{"hidden_activation", "silu"}})); });
  expect_refusal(Code::unsupported, "multiples of 64", [] { huggingface(gemma4({{"global_head_dim", 40}})); });
  expect_refusal(Code::unsupported, "head dimension is 1024", [] { huggingface(gemma4({{"global_head_dim", 1024}})); });
}

TEST(ModelConfig, GgufOfGemma4) {
  json keys = {{"attention.key_length", 64},
               {"attention.value_length", 64},
               {"attention.key_length_swa", 16},
               {"attention.value_length_swa", 16},
               {"attention.head_count_kv", {2, 1, 2, 2, 1, 2, 1}},
               {"attention.sliding_window", 24},
               {"attention.sliding_window_pattern", {true, false, true, true, false, true, false}},
               {"attention.shared_kv_layers", 2},
               {"embedding_length_per_layer_input", 24},
               {"feed_forward_length", {64, 64, 64, 64, 64, 128, 128}}};
  const Config c = gguf("gemma4", keys);
  EXPECT_EQ(c.layer_input, 24u);
  EXPECT_EQ(c.attention_scale, 1);
  EXPECT_EQ(c.ffn, 128u);
  EXPECT_EQ(c.ffn_of(4), 64u);
  EXPECT_EQ(c.ffn_of(5), 128u);
  EXPECT_EQ(c.shape_of(c.attention_of(1)).head_dim, 64u);
  EXPECT_EQ(c.shape_of(c.attention_of(1)).kv_heads, 1u);
  EXPECT_EQ(c.shape_of(c.attention_of(2)).head_dim, 16u);
  EXPECT_EQ(c.attention_of(5).source, 3u);
  EXPECT_EQ(c.attention_of(6).source, 4u);
  keys["attention.head_count_kv"] = {2, 1, 2, 2, 2, 2, 1};
  expect_refusal(Code::unsupported, "different heads", [&] { gguf("gemma4", keys); });
  keys["attention.head_count_kv"] = {2, 1};
  expect_refusal(Code::bad_file, "head_count_kv", [&] { gguf("gemma4", keys); });
  keys["attention.head_count_kv"] = 2;
  keys["rope.dimension_count_swa"] = 8;
  expect_refusal(Code::unsupported, "RoPE", [&] { gguf("gemma4", keys); });
}

}  // namespace
}  // namespace weft
