// Keys that config.json or GGUF metadata lack: the family's values, or an error that names the key.
// golden/family_defaults.json has what the configuration classes of Transformers make of an empty config.json
// (tests/tools/family_defaults.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "model/config.h"
#include "model/family_defaults.h"
#include "support/json_value.h"
#include "support/source_folder.h"

namespace weft {
namespace {

using nlohmann::json;
using ops::Activation;

Config read(ModelFile::Kind kind, const json& metadata) {
  ModelFile file;
  file.kind = kind;
  file.path = "model";
  file.metadata = metadata;
  return read_config(file);
}

json golden() {
  std::ifstream file(source_folder() / "tests/unit/golden/family_defaults.json");
  return json::parse(file);
}

const std::map<std::string, Activation> kActivations = {
    {"silu", Activation::silu},          {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"relu", Activation::relu},          {"relu2", Activation::relu_squared}};

// If the golden has the setting.
void expect_same(const json& want, const char* key, double found) {
  if (!want.contains(key) || want[key].is_null()) return;
  const double wanted = want[key].is_boolean() ? want[key].get<bool>() : want[key].get<double>();
  EXPECT_NEAR(found, wanted, 1e-6 * std::abs(wanted)) << key;
}

void expect_attention(const Config& c, const json& want) {
  expect_same(want, "head_dim", c.heads.head_dim);
  expect_same(want, "kv_heads", c.heads.kv_heads);
  expect_same(want, "rope_theta", c.ropes[0].base);
  expect_same(want, "rotary_dim", 2.0 * static_cast<double>(c.ropes[0].frequencies.size()));
  expect_same(want, "local_rope_theta", c.ropes.back().base);
  expect_same(want, "query_pre_attn_scalar", 1 / (c.attention_scale * c.attention_scale));
  expect_same(want, "attention_multiplier", c.attention_scale);
  expect_same(want, "attention_bias", c.layer_kind.qkv_bias);
  EXPECT_FLOAT_EQ(c.attention_cap, want.value("attn_logit_softcapping", 0.f));
  const std::vector<uint32_t> windows = want["windows"];  // of the first layers
  for (uint32_t layer = 0; layer < (windows.empty() ? c.layers : windows.size()); ++layer) {
    const auto* attention = std::get_if<AttentionConfig>(&c.layer_configs[layer].mixer);
    if (attention) {
      EXPECT_EQ(attention->window, windows.empty() ? 0 : windows[layer]) << layer;
    }
  }
}

void expect_network(const Config& c, const json& want) {
  for (const auto& [key, found] : {std::pair<const char*, double>{"width", c.width},
                                   {"layers", c.layers},
                                   {"heads", c.heads.heads},
                                   {"context", c.context},
                                   {"epsilon", c.mixer_epsilon},
                                   {"tie_word_embeddings", c.tied.value_or(true)},
                                   {"logit_scale", c.logit_scale}})
    expect_same(want, key, found);
  EXPECT_FLOAT_EQ(c.logit_cap, want.value("final_logit_softcapping", 0.f));
  EXPECT_EQ(c.experts.count, want.value("experts", 0u));
  if (c.experts.count > 0) expect_same(want, "num_experts_per_tok", c.experts.used);
  // gpt-oss's file does not say that the gate is clamped.
  if (want["activation"] == "" || c.layer_kind.activation == Activation::clamped) return;
  EXPECT_EQ(c.layer_kind.activation, kActivations.at(want["activation"]));
}

TEST(ModelDefaults, OfConfigJson) {
  std::set<std::string> read_types, known;
  const json all = golden();
  for (const auto& [type, want] : all.items()) {
    SCOPED_TRACE(type);
    const Config c = read(ModelFile::Kind::huggingface, {{"model_type", type}});
    expect_network(c, want);
    expect_attention(c, want);
    read_types.insert(type);
  }
  for (const Family& family : all_families())
    if (!family.model_type.empty()) known.emplace(family.model_type);
  EXPECT_EQ(read_types, known);
}

// A file's own value comes first, under any of the key's names, and so does its null.
TEST(ModelDefaults, TheFileComesFirst) {
  EXPECT_FLOAT_EQ(
      read(ModelFile::Kind::huggingface, {{"model_type", "nomic_bert"}, {"layer_norm_epsilon", 1e-3}}).epsilon, 1e-3f);
  EXPECT_EQ(read(ModelFile::Kind::huggingface, {{"model_type", "mistral"}}).attention_of(0).window, 4096u);
  EXPECT_EQ(read(ModelFile::Kind::huggingface, {{"model_type", "mistral"}, {"sliding_window", nullptr}})
                .attention_of(0)
                .window,
            0u);
  const Config plain = read(ModelFile::Kind::huggingface,
                            {{"model_type", "ministral3"}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}});
  EXPECT_EQ(plain.query_growth.rate, 0) << "the family's rope_parameters are not merged into the file's rope_scaling";
}

json gguf_of(const std::string& architecture, const json& changes) {
  json metadata = {{"general.architecture", architecture}};
  json keys = {{"embedding_length", 64},
               {"block_count", 8},
               {"feed_forward_length", 128},
               {"attention.head_count", 4},
               {"attention.head_count_kv", 4},
               {"context_length", 512},
               {"attention.layer_norm_epsilon", 1e-5},
               {"attention.layer_norm_rms_epsilon", 1e-5},
               {"attention.sliding_window", 32},
               {"logit_scale", 2.0},
               {"residual_scale", 2.0},
               {"embedding_scale", 2.0},
               {"attention.scale", 2.0}};
  if (!changes.is_null()) keys.update(changes);
  for (const auto& [key, value] : keys.items())
    if (!value.is_null()) metadata[architecture + "." + key] = value;
  return metadata;
}

// The same defaults as llama.cpp's loader.
TEST(ModelDefaults, OfGguf) {
  const std::pair<const char*, std::vector<const char*>> needed[] = {
      {"llama", {"attention.layer_norm_rms_epsilon"}},
      {"olmo2", {"attention.layer_norm_rms_epsilon"}},
      {"mpt", {"attention.layer_norm_epsilon"}},
      {"command-r", {"attention.layer_norm_epsilon", "logit_scale"}},
      {"cohere2", {"attention.layer_norm_epsilon", "logit_scale", "attention.sliding_window"}},
      {"gpt-oss", {"attention.sliding_window"}},
      {"gemma-embedding", {"attention.sliding_window"}},
      {"gemma4", {"attention.sliding_window"}},
      {"granite", {"logit_scale", "residual_scale", "embedding_scale", "attention.scale"}},
      {"granitemoe", {"logit_scale", "residual_scale", "embedding_scale", "attention.scale"}}};
  for (const auto& [architecture, keys] : needed) {
    read(ModelFile::Kind::gguf, gguf_of(architecture, {}));
    for (const char* key : keys) try {
        read(ModelFile::Kind::gguf, gguf_of(architecture, {{key, nullptr}}));
        ADD_FAILURE() << architecture << ": " << key;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::bad_file);
        const std::string words = "the value '" + std::string(architecture) + "." + key + "' is missing";
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      }
  }
  const auto without_window = [](const char* architecture, json changes) {
    changes["attention.sliding_window"] = nullptr;
    return read(ModelFile::Kind::gguf, gguf_of(architecture, changes));
  };
  const Config gemma2 = without_window("gemma2", {});
  EXPECT_EQ(gemma2.attention_of(0).window, 4096u);
  EXPECT_EQ(gemma2.attention_of(1).window, 0u);
  EXPECT_EQ(gemma2.attention_cap, 50);
  EXPECT_EQ(gemma2.logit_cap, 30);
  EXPECT_EQ(without_window("exaone4", {{"block_count", 64}}).attention_of(0).window, 4096u);
  EXPECT_EQ(without_window("exaone4", {}).attention_of(0).window, 0u);
  EXPECT_EQ(without_window("gemma3", {}).attention_of(0).rope, 0u) << "no windows, so no RoPE of their own";
  for (const char* architecture : {"llama", "ernie4_5", "exaone", "mistral3"})
    EXPECT_EQ(read(ModelFile::Kind::gguf, gguf_of(architecture, {})).ropes[0].base, 10000) << architecture;
  EXPECT_EQ(
      read(ModelFile::Kind::gguf, gguf_of("granite", {{"rope.scaling.finetuned", false}})).ropes[0].frequencies.size(),
      0u);
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"})
    EXPECT_EQ(read(ModelFile::Kind::gguf, gguf_of("llama", {{key, 4.0}})).ropes[0].frequencies[0], 0.25) << key;
}

}  // namespace
}  // namespace weft
