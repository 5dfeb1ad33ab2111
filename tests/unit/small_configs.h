// Configurations of a small model, with some keys changed.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "model/config.h"
#include "support/json_value.h"

namespace weft {

using nlohmann::json;

inline ModelFile file_of(ModelFile::Kind kind, json metadata) {
  ModelFile file;
  file.kind = kind;
  file.path = "model";
  file.metadata = std::move(metadata);
  return file;
}

inline Config huggingface(json changes) {
  json metadata = {{"model_type", "llama"},       {"hidden_size", 64},        {"num_hidden_layers", 7},
                   {"intermediate_size", 128},    {"num_attention_heads", 4}, {"max_position_embeddings", 512},
                   {"tie_word_embeddings", true}, {"num_key_value_heads", 4}};
  metadata.update(changes);
  return read_config(file_of(ModelFile::Kind::huggingface, metadata));
}

inline json gguf_metadata(const std::string& architecture, const json& changes) {
  json metadata = {{"general.architecture", architecture}};
  const json common = {{"embedding_length", 64},
                       {"block_count", 7},
                       {"feed_forward_length", 128},
                       {"attention.head_count", 4},
                       {"context_length", 512},
                       {"attention.layer_norm_epsilon", 1e-5},
                       {"attention.layer_norm_rms_epsilon", 1e-5},
                       {"attention.sliding_window", 32},
                       {"logit_scale", 1.0}};
  for (const auto& [key, value] : common.items()) metadata[architecture + "." + key] = value;
  for (const auto& [key, value] : changes.items()) metadata[architecture + "." + key] = value;
  return metadata;
}

inline Config gguf(const std::string& architecture, const json& changes) {
  return read_config(file_of(ModelFile::Kind::gguf, gguf_metadata(architecture, changes)));
}

template <class Read>
void expect_refusal(Code code, const std::string& words, const Read& read) {
  try {
    read();
    ADD_FAILURE() << "not refused: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace weft
