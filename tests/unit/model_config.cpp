// Configurations from config.json and GGUF metadata, with the keys of older and newer files.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "model/adapter_file.h"
#include "support/source_folder.h"
#include "unit/small_configs.h"

namespace weft {
namespace {

TEST(ModelConfig, UnknownFamiliesAreRefusedByNameWithTheKnownOnes) {
  for (const char* words : {"'mamba'", "llama", "mistral", "qwen3", "gemma3_text", "gpt_neox"})
    expect_refusal(Code::unsupported, words, [] { huggingface({{"model_type", "mamba"}}); });
  for (const char* words : {"'mamba'", "llama", "qwen3", "gemma3", "gptneox"})
    expect_refusal(Code::unsupported, words, [] { gguf("mamba", {}); });
}

std::vector<std::string> quoted_names(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; (at = text.find('`', at)) != text.npos;) {
    const size_t end = text.find('`', at + 1);
    names.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

// Each row of the table names one architecture at most, and the model types that have it.
TEST(ModelConfig, TheDocumentedFamiliesAreThoseThatRun) {
  std::set<std::pair<std::string, std::string>> documented, known;
  std::ifstream page(source_folder() / "docs/formats.md");
  bool there = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) there = line == "## Families";
    if (!there || !line.starts_with("| ") || line.starts_with("| models")) continue;
    const size_t second = line.find('|', 1), third = line.find('|', second + 1);
    const std::vector<std::string> architectures = quoted_names(line.substr(second, third - second));
    std::vector<std::string> types = quoted_names(line.substr(third));
    ASSERT_LE(architectures.size(), 1u) << line;
    if (types.empty()) types.emplace_back();
    for (const std::string& type : types)
      EXPECT_TRUE(documented.emplace(architectures.empty() ? "" : architectures[0], type).second) << line;
  }
  for (const Family& family : all_families())
    known.emplace(std::string(family.architecture), std::string(family.model_type));
  EXPECT_EQ(documented, known);
}

TEST(ModelConfig, QueriesThatGrowAreOfOneFamily) {
  const json rope = {{"rope_type", "yarn"},
                     {"rope_theta", 1e6},
                     {"factor", 16.0},
                     {"original_max_position_embeddings", 32},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0},
                     {"llama_4_scaling_beta", 0.1}};
  const Config folder = huggingface({{"model_type", "ministral3"}, {"rope_parameters", rope}});
  const Config file = gguf("mistral3", {{"rope.scaling.type", "yarn"},
                                        {"rope.scaling.factor", 16.0},
                                        {"rope.scaling.original_context_length", 32},
                                        {"rope.scaling.yarn_log_multiplier", 1.0},
                                        {"attention.temperature_scale", 0.1}});
  for (const Config& c : {folder, file}) {
    EXPECT_FLOAT_EQ(c.query_growth.rate, 0.1f);
    EXPECT_EQ(c.query_growth.step, 32u);
    EXPECT_DOUBLE_EQ(c.ropes[0].magnitude, 1);
  }
  EXPECT_EQ(gguf("mistral3", {}).query_growth.rate, 0) << "Mistral Small 3";
  expect_refusal(Code::unsupported, "llama_4_scaling_beta", [&] { huggingface({{"rope_parameters", rope}}); });
  expect_refusal(Code::unsupported, "attention.temperature_scale", [] {
    gguf("llama", {{"attention.temperature_scale", 0.1}});
  });
}

TEST(ModelConfig, SettingsThatWouldChangeTheResultAreRefused) {
  const std::tuple<const char*, const char*, json> settings[] = {{"falcon", "new_decoder_architecture", true},
                                                                 {"falcon", "parallel_attn", false},
                                                                 {"falcon", "alibi", true},
                                                                 {"falcon", "multi_query", false},
                                                                 {"olmo", "clip_qkv", 8.0},
                                                                 {"stablelm", "qk_layernorm", true},
                                                                 {"phi", "qk_layernorm", true},
                                                                 {"opt", "do_layer_norm_before", false},
                                                                 {"mpt", "attn_config", {{"clip_qkv", 6}}},
                                                                 {"mpt", "attn_config", {{"alibi", false}}},
                                                                 {"cohere2", "use_qk_norm", true},
                                                                 {"glm4", "num_experts", 4}};
  for (const auto& [type, key, value] : settings) {
    huggingface({{"model_type", type}});
    expect_refusal(Code::unsupported, "not supported: ", [&, type = type, key = key, value = value] {
      huggingface({{"model_type", type}, {key, value}});
    });
  }
  expect_refusal(Code::unsupported, "clamp_kqv", [] { gguf("olmo", {{"attention.clamp_kqv", 8.0}}); });
  expect_refusal(Code::unsupported, "max_alibi_bias", [] { gguf("mpt", {{"attention.max_alibi_bias", 16.0}}); });
  // As Tencent's files have it.
  huggingface({{"model_type", "hunyuan_v1_dense"}, {"use_qk_norm", true}, {"num_experts", 1}});
  expect_refusal(Code::unsupported, "use_qk_norm", [] {
    huggingface({{"model_type", "hunyuan_v1_dense"}, {"use_qk_norm", false}});
  });
}

// llama.cpp's converter says true of layers whose branches follow each other, but gives them their norms.
TEST(ModelConfig, BranchesSideBySideShareANorm) {
  for (const bool own_norm : {false, true}) {
    json metadata = {{"general.architecture", "stablelm"}};
    for (const auto& [key, value] : {std::pair<std::string, json>{"embedding_length", 64},
                                     {"block_count", 7},
                                     {"feed_forward_length", 128},
                                     {"attention.head_count", 4},
                                     {"context_length", 512},
                                     {"attention.layer_norm_epsilon", 1e-5},
                                     {"use_parallel_residual", true}})
      metadata["stablelm." + key] = value;
    ModelFile file = file_of(ModelFile::Kind::gguf, metadata);
    if (own_norm) {
      file.tensors.push_back({"blk.0.ffn_norm.weight", DType::f32, {64}, {}});
      file.index.emplace("blk.0.ffn_norm.weight", 0);
    }
    const Config c = read_config(file);
    EXPECT_NE(c.layer_kind.parallel, own_norm);
    EXPECT_NE(c.layer_kind.shared_norm, own_norm);
  }
}

// Granite 4's dense files list the heads of each layer.
TEST(ModelConfig, ListsOfKeyValueHeads) {
  const auto read = [](const char* architecture, const json& counts) {
    return gguf(architecture, {{"attention.head_count_kv", counts},
                               {"shortconv.l_cache", 3},
                               {"attention.scale", 0.25},
                               {"embedding_scale", 2.0},
                               {"residual_scale", 0.5}});
  };
  for (const char* architecture : {"granite", "granitemoe", "llama"}) {
    SCOPED_TRACE(architecture);
    const Config c = read(architecture, json::array({2, 2, 2, 2, 2, 2, 2}));
    EXPECT_EQ(c.heads.kv_heads, 2u);
    EXPECT_EQ(c.shape_of(c.attention_of(6)).kv_heads, 2u);
    const json zero = json::array({2, 2, 0, 2, 2, 2, 2}), few = json::array({2, 2});
    expect_refusal(Code::bad_file, "head_count_kv", [&] { read(architecture, zero); });
    expect_refusal(Code::bad_file, "head_count_kv", [&] { read(architecture, few); });
  }
  for (const json& counts : {json::array({4, 4, 4, 4, 4, 4, 2}), json::array({2, 4, 4, 4, 4, 4, 4})})
    for (const char* architecture : {"granite", "lfm2"})
      expect_refusal(Code::unsupported, "different heads", [&] { read(architecture, counts); });
}

// llama.cpp's converter reorders the rows of GLM-4.1V that RoPE rotates. Adapters that are GGUF files follow the model.
TEST(ModelConfig, GlmWithSectionsHasHalves) {
  const json sections = json::array({2, 1, 1, 0});
  const Config text = gguf("glm4", {{"rope.dimension_count", 8}});
  const Config vision = gguf("glm4", {{"rope.dimension_count", 8}, {"rope.dimension_sections", sections}});
  EXPECT_EQ(text.pairs, ops::Pairs::adjacent);
  EXPECT_EQ(vision.pairs, ops::Pairs::halves);
  constexpr uint64_t kStored[] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15};  // rows of a head in a folder
  for (const uint64_t row : {0u, 1u, 4u, 7u, 8u, 15u, 16u, 17u, 31u}) {
    SCOPED_TRACE(row);
    for (const ModelFile::Kind kind : {ModelFile::Kind::gguf, ModelFile::Kind::huggingface})
      EXPECT_EQ(row_in_file(kind, text, "attn_q", 64, row), row);
    EXPECT_EQ(row_in_file(ModelFile::Kind::gguf, vision, "attn_q", 64, row), row);
    EXPECT_EQ(row_in_file(ModelFile::Kind::huggingface, vision, "attn_q", 64, row), row / 16 * 16 + kStored[row % 16]);
    EXPECT_EQ(row_in_file(ModelFile::Kind::huggingface, vision, "attn_v", 64, row), row);
  }
}

// IBM's Granite Embedding R2 is a ModernBERT with SiLU.
TEST(ModelConfig, GgufNamesTheActivationOfModernBert) {
  EXPECT_EQ(gguf("modern-bert", {}).layer_kind.activation, ops::Activation::gelu);
  for (const auto& [name, activation] : {std::pair("gelu", ops::Activation::gelu), {"silu", ops::Activation::silu}})
    EXPECT_EQ(gguf("modern-bert", {{"hidden_activation", name}}).layer_kind.activation, activation) << name;
  expect_refusal(Code::unsupported, "activation 'mish'", [] { gguf("modern-bert", {{"hidden_activation", "mish"}}); });
}

// Files of untied rerankers lack the output table and have its rows of "yes" and "no".
TEST(ModelConfig, RerankersRateByTheRowsOfTheirFile) {
  json metadata = gguf_metadata("qwen3", {{"pooling_type", 4}});
  metadata["tokenizer.ggml.tokens"] = json::array({"a", "no", "yes"});
  std::vector<float> rows(2 * 64);
  rows[0] = 3, rows[64] = 1, rows[63] = 1, rows[127] = 2;
  ModelFile file = file_of(ModelFile::Kind::gguf, metadata);
  file.tensors.push_back({"cls.output.weight", DType::f32, {2, 64}, std::as_bytes(std::span(rows))});
  file.index.emplace("cls.output.weight", 0);
  const Config c = read_config(file);
  ASSERT_TRUE(c.sentences.relevance);
  const RelevanceTokens& tokens = *c.sentences.relevance;
  EXPECT_EQ(tokens.yes, 2u);
  EXPECT_EQ(tokens.no, 1u);
  ASSERT_EQ(tokens.direction.size(), 64u);
  EXPECT_EQ(tokens.direction.front(), 2);
  EXPECT_EQ(tokens.direction.back(), -1);
}

// Only layers with a window have RoPE, if some have one.
TEST(ModelConfig, RopeInWindowsAlone) {
  for (const uint32_t window : {0u, 32u}) {
    const Config c = gguf("exaone4", {{"attention.sliding_window", window}});
    for (uint32_t layer = 0; layer < c.layers; ++layer) {
      const bool global = layer % 4 == 3;
      EXPECT_EQ(c.attention_of(layer).window, global ? 0 : window) << layer;
      EXPECT_EQ(c.attention_of(layer).rotary_dim, global && window ? 0u : 16u) << layer;
    }
  }
}

// Frequencies of Transformers 5's _compute_llama3_parameters, for a head of 16.
TEST(ModelConfig, Llama3Frequencies) {
  const json scaling = {{"rope_type", "llama3"},  {"rope_theta", 10000.0},   {"factor", 8.0},
                        {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 64}};
  const std::vector<double> want = {1.0,          0.24438459,    0.013042256, 0.0039528473,
                                    0.0012500000, 0.00039528473, 0.000125,    3.9528473e-05};
  json older = scaling;
  older.erase("rope_theta");
  for (const Config& c :
       {huggingface({{"rope_parameters", scaling}}), huggingface({{"rope_scaling", older}, {"rope_theta", 10000.0}})}) {
    ASSERT_EQ(c.ropes.size(), 1u);
    ASSERT_EQ(c.ropes[0].frequencies.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(c.ropes[0].frequencies[i], want[i], 1e-5 * want[i]) << i;
  }
  json broken = scaling;
  broken["high_freq_factor"] = 1.0;
  expect_refusal(Code::bad_file, "high_freq_factor", [&] { huggingface({{"rope_parameters", broken}}); });
  broken = scaling;
  broken.erase("factor");
  expect_refusal(Code::bad_file, "factor", [&] { huggingface({{"rope_parameters", broken}}); });
  expect_refusal(Code::unsupported, "dynamic, yarn", [] {
    huggingface({{"rope_scaling", {{"type", "spiral"}, {"factor", 4.0}}}});
  });
}

// Frequencies of Transformers 5's _compute_yarn_parameters, for a head of 16.
TEST(ModelConfig, Yarn) {
  const json scaling = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}};
  const std::vector<double> want = {
      1, 0.23717082, 0.049999997, 0.0079056947, 0.0024999999, 0.00079056947, 0.00025000001, 7.9056947e-05};
  json gguf_scaling = {
      {"rope.scaling.type", "yarn"}, {"rope.scaling.factor", 4.0}, {"rope.scaling.original_context_length", 64}};
  for (const Config& c : {huggingface({{"rope_scaling", scaling}}), gguf("llama", gguf_scaling)}) {
    ASSERT_EQ(c.ropes[0].frequencies.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(c.ropes[0].frequencies[i], want[i], 1e-5 * want[i]) << i;
    EXPECT_NEAR(c.ropes[0].magnitude, 1 + 0.1 * std::log(4.0), 1e-9);
    EXPECT_EQ(c.context, 512u);  // which is more than 4 times 64
  }
  json longer = scaling;
  longer["factor"] = 16.0;
  EXPECT_EQ(huggingface({{"rope_scaling", longer}}).context, 1024u);
  longer["factor"] = 1e12;
  EXPECT_EQ(huggingface({{"rope_scaling", longer}}).context, 1u << 24);
  json both = scaling;
  both["mscale"] = 0.707;
  both["mscale_all_dim"] = 1.0;
  EXPECT_NEAR(huggingface({{"rope_scaling", both}}).ropes[0].magnitude,
              (1 + 0.0707 * std::log(4.0)) / (1 + 0.1 * std::log(4.0)), 1e-9);
  // config.json's attention_factor is the whole magnitude, under either name that llama.cpp's converters gave it.
  json whole = scaling;
  whole["attention_factor"] = 1 + 0.1 * std::log(4.0);
  EXPECT_NEAR(huggingface({{"rope_scaling", whole}}).ropes[0].magnitude, 1 + 0.1 * std::log(4.0), 1e-9);
  for (const char* const key : {"rope.scaling.yarn_attn_factor", "rope.scaling.attn_factor"}) {
    json named = gguf_scaling;
    named[key] = static_cast<float>(1 + 0.1 * std::log(4.0));
    EXPECT_NEAR(gguf("llama", named).ropes[0].magnitude, 1 + 0.1 * std::log(4.0), 1e-6) << key;
  }
  gguf_scaling["rope.scaling.yarn_ext_factor"] = 0.5;
  expect_refusal(Code::unsupported, "YaRN", [&] { gguf("llama", gguf_scaling); });
}

TEST(ModelConfig, FrequenciesOfLongContexts) {
  const std::vector<double> few = {1, 1, 1, 1, 1, 1, 1, 2}, many = {2, 2, 2, 2, 2, 2, 2, 4};
  const json scaling = {{"type", "su"}, {"short_factor", few}, {"long_factor", many}};
  Rope rope = huggingface({{"rope_scaling", scaling}, {"original_max_position_embeddings", 128}}).ropes[0];
  EXPECT_DOUBLE_EQ(rope.frequencies_for(128)[0], 1);
  EXPECT_DOUBLE_EQ(rope.frequencies_for(129)[0], 0.5);
  EXPECT_DOUBLE_EQ(rope.frequencies_for(129)[7], rope.frequencies_for(128)[7] / 2);
  EXPECT_NEAR(rope.magnitude, std::sqrt(1 + std::log(4.0) / std::log(128.0)), 1e-9);  // 512 is 4 times 128
  for (const json& wrong : {json(3), json({1, 2}), json({1, 1, 1, 1, 1, 1, 1, 0}), json({1, 1, 1, 1, 1, 1, 1, "x"})}) {
    json broken = scaling;
    broken["long_factor"] = wrong;
    expect_refusal(Code::bad_file, "long_factor", [&] { huggingface({{"rope_scaling", broken}}); });
  }
  // Dynamic: at twice the context, with a factor of 2, the base is 3^(16 / 14) times as large.
  const Config dynamic = huggingface({{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}});
  EXPECT_EQ(dynamic.context, 1024u);
  rope = dynamic.ropes[0];
  EXPECT_EQ(rope.frequencies_for(512), rope.frequencies);
  EXPECT_NEAR(rope.frequencies_for(1024)[7], rope.frequencies[7] / 3, 1e-9 * rope.frequencies[7]);
  EXPECT_EQ(rope.frequencies_for(1024)[0], 1);
}

TEST(ModelConfig, Experts) {
  for (const Config& c :
       {huggingface({{"model_type", "mixtral"}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}}),
        gguf("llama", {{"expert_count", 8}, {"expert_used_count", 2}})}) {
    EXPECT_EQ(c.experts.count, 8u);
    EXPECT_EQ(c.experts.used, 2u);
  }
  expect_refusal(Code::bad_file, "num_experts_per_tok", [] {
    huggingface({{"model_type", "mixtral"}, {"num_local_experts", 2}, {"num_experts_per_tok", 3}});
  });
  expect_refusal(Code::unsupported, "experts", [] { gguf("gpt2", {{"expert_count", 8}}); });
  expect_refusal(Code::unsupported, "experts", [] { gguf("qwen2", {{"expert_count", 8}}); });
  expect_refusal(Code::unsupported, "experts", [] { huggingface({{"model_type", "qwen2"}, {"num_experts", 8}}); });
}

std::string experts_of(const Config& c) {
  std::string layers;
  for (const LayerConfig& layer : c.layer_configs) layers += layer.experts ? 'e' : '-';
  return layers;
}

TEST(ModelConfig, LayersWithExpertsAndTheirWeights) {
  const json few = {{"num_experts", 8}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 24}};
  const auto of = [&](const char* type, json changes) {
    changes.update(few);
    changes["model_type"] = type;
    return huggingface(changes);
  };
  Config c = of("qwen3_moe", {});
  EXPECT_EQ(experts_of(c), "eeeeeee");
  EXPECT_EQ(c.expert_ffn, 24u);
  EXPECT_FALSE(c.experts.normalised);
  c = of("qwen3_moe", {{"norm_topk_prob", true}, {"decoder_sparse_step", 2}, {"mlp_only_layers", {3}}});
  EXPECT_EQ(experts_of(c), "-e---e-");
  EXPECT_TRUE(c.experts.normalised);
  EXPECT_EQ(c.ffn, 128u);
  expect_refusal(Code::bad_file, "mlp_only_layers", [&] { of("qwen3_moe", {{"mlp_only_layers", {7}}}); });

  const json convolutions = {
      {"layer_types", json::array({"conv", "conv", "full_attention", "conv", "conv", "conv", "conv"})}};
  c = of("lfm2_moe", convolutions);
  EXPECT_EQ(experts_of(c), "--eeeee");
  EXPECT_TRUE(c.experts.sigmoid && c.experts.normalised && c.layer_kind.choice_bias);
  json odd = convolutions;
  odd.update(
      {{"norm_topk_prob", false}, {"use_expert_bias", false}, {"routed_scaling_factor", 2.5}, {"num_dense_layers", 0}});
  c = of("lfm2_moe", odd);
  EXPECT_EQ(experts_of(c), "eeeeeee");
  EXPECT_TRUE(c.experts.sigmoid && !c.experts.normalised && !c.layer_kind.choice_bias);
  EXPECT_EQ(c.experts.scale, 2.5f);

  const json keys = {{"expert_count", 8}, {"expert_used_count", 2}, {"expert_feed_forward_length", 24}};
  c = gguf("qwen3moe", keys);
  EXPECT_TRUE(c.experts.normalised && !c.experts.sigmoid);
  EXPECT_EQ(c.expert_ffn, 24u);
  json sigmoid = keys;
  sigmoid.update({{"leading_dense_block_count", 1},
                  {"shortconv.l_cache", 3},
                  {"expert_weights_scale", 0.5},
                  {"attention.head_count_kv", {0, 0, 2, 0, 0, 0, 2}}});
  c = gguf("lfm2moe", sigmoid);
  EXPECT_EQ(experts_of(c), "-eeeeee");
  EXPECT_TRUE(c.experts.sigmoid);
  EXPECT_EQ(c.experts.scale, 0.5f);
  for (const auto& [key, value] : {std::pair{"expert_group_count", 2}, {"expert_gating_func", 3}}) {
    json other = keys;
    other[key] = value;
    expect_refusal(std::string(key) == "expert_group_count" ? Code::unsupported : Code::bad_file, key,
                   [&] { gguf("qwen3moe", other); });
  }
}

TEST(ModelConfig, GptOss) {
  const json oss = {{"model_type", "gpt_oss"}, {"num_local_experts", 8}, {"num_experts_per_tok", 2},
                    {"sliding_window", 128},   {"head_dim", 16},         {"attention_bias", true}};
  const Config c = huggingface(oss);
  EXPECT_TRUE(c.layer_kind.sinks && c.layer_kind.expert_bias);
  EXPECT_EQ(c.layer_kind.activation, ops::Activation::clamped);
  EXPECT_EQ(c.attention_of(0).window, 128u);
  EXPECT_EQ(c.attention_of(1).window, 0u);
  const auto with = [&](const char* key, json value) {
    json changed = oss;
    changed[key] = std::move(value);
    return huggingface(changed);
  };
  expect_refusal(Code::unsupported, "swiglu_limit", [&] { with("swiglu_limit", 6.0); });
  expect_refusal(Code::unsupported, "swiglu_alpha", [&] { with("swiglu_alpha", 1.5); });
}

TEST(ModelConfig, WindowsOfQwen2) {
  const json windows = {{"model_type", "qwen2"}, {"sliding_window", 32}, {"max_window_layers", 5}};
  json used = windows;
  used["use_sliding_window"] = true;
  json unused = windows;
  unused["use_sliding_window"] = false;
  for (uint32_t layer = 0; layer < 7; ++layer) {
    EXPECT_EQ(huggingface(used).attention_of(layer).window, layer < 5 ? 0u : 32u) << layer;
    EXPECT_EQ(huggingface(unused).attention_of(layer).window, 0u) << layer;
  }
}

TEST(ModelConfig, LayersThatDoNotTurn) {
  for (const Config& c :
       {huggingface({{"model_type", "smollm3"}}),
        huggingface({{"model_type", "smollm3"}, {"no_rope_layers", {1, 1, 1, 0, 1, 1, 1}}}), gguf("smollm3", {})})
    for (uint32_t layer = 0; layer < 7; ++layer)
      EXPECT_EQ(c.attention_of(layer).rotary_dim, layer == 3 ? 0u : 16u) << layer;
  const Config sixth = huggingface({{"model_type", "smollm3"}, {"no_rope_layer_interval", 6}});
  const Config all = huggingface({{"model_type", "smollm3"}, {"no_rope_layers", {1, 1, 1, 1, 1, 1, 1}}});
  for (uint32_t layer = 0; layer < 7; ++layer) {
    EXPECT_EQ(sixth.attention_of(layer).rotary_dim, layer == 5 ? 0u : 16u) << layer;
    EXPECT_EQ(all.attention_of(layer).rotary_dim, 16u) << layer;
  }
  expect_refusal(Code::bad_file, "no_rope_layers", [] {
    huggingface({{"model_type", "smollm3"}, {"no_rope_layers", {1, 1}}});
  });
}

TEST(ModelConfig, PartOfAHeadTurns) {
  for (const Config& c : {huggingface({{"model_type", "gpt_neox"}, {"rotary_pct", 0.25}, {"rotary_emb_base", 100.0}}),
                          gguf("gptneox", {{"rope.dimension_count", 4}, {"rope.freq_base", 100.0}})}) {
    EXPECT_EQ(c.attention_of(0).rotary_dim, 4u);
    EXPECT_DOUBLE_EQ(c.ropes[0].frequencies.at(1), 0.1);
    EXPECT_TRUE(c.layer_kind.parallel);
  }
}

TEST(ModelConfig, WhatIsNotRunIsRefused) {
  expect_refusal(Code::unsupported, "quick_gelu", [] { huggingface({{"hidden_act", "quick_gelu"}}); });
  expect_refusal(Code::unsupported, "chunked_attention", [] {
    huggingface({{"layer_types", json::array({"chunked_attention", 1, 2, 3, 4, 5, 6})}});
  });
  expect_refusal(Code::bad_file, "layer_types", [] { huggingface({{"layer_types", "full_attention"}}); });
  expect_refusal(Code::unsupported, "use_bidirectional_attention", [] {
    huggingface({{"use_bidirectional_attention", true}});
  });
  EXPECT_TRUE(huggingface({{"model_type", "gemma3_text"}, {"use_bidirectional_attention", true}}).layer_kind.sees_all);
  EXPECT_TRUE(huggingface({{"model_type", "qwen2"}, {"is_causal", false}}).layer_kind.sees_all);
  EXPECT_FALSE(huggingface({{"model_type", "qwen2"}, {"is_causal", true}}).layer_kind.sees_all);
  expect_refusal(Code::unsupported, "see later ones", [] {
    huggingface({{"model_type", "gpt2"}, {"is_causal", false}});
  });
  expect_refusal(Code::unsupported, "'rope_scaling' beside 'rope_parameters'", [] {
    huggingface({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1e4}}},
                 {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}});
  });
  huggingface({{"rope_parameters", {{"rope_type", "linear"}, {"rope_theta", 1e4}, {"factor", 2.0}}},
               {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}});
  expect_refusal(Code::unsupported, "without 'layer_types'", [] {
    huggingface({{"model_type", "qwen2_moe"}, {"use_sliding_window", true}, {"sliding_window", 32}});
  });
  expect_refusal(Code::unsupported, "longrope", [] { gguf("phi3", {{"rope.scaling.type", "longrope"}}); });
  expect_refusal(Code::bad_file, "key/value heads", [] {
    huggingface({{"model_type", "gpt_neox"}, {"num_key_value_heads", 2}});
  });
  expect_refusal(Code::bad_file, "rotary", [] { gguf("llama", {{"rope.dimension_count", 32}}); });
}

// Numbers that would overflow a computation of sizes are refused.
TEST(ModelConfig, NumbersHaveLimits) {
  for (const auto& [key, most] : {std::pair("embedding_length", 1u << 20),
                                  {"feed_forward_length", 1u << 20},
                                  {"context_length", 1u << 24},
                                  {"block_count", 4096u},
                                  {"expert_count", 1024u}}) {
    expect_refusal(Code::bad_file, key, [&, name = key, value = most + 1] { gguf("llama", {{name, value}}); });
  }
  EXPECT_EQ(gguf("llama", {{"feed_forward_length", 1u << 20}, {"context_length", 1u << 24}}).context, 1u << 24);
}

}  // namespace
}  // namespace weft
