// Embeddings of texts, with a model that has an encoder.
#pragma once

#include <mutex>

#include "protocol.h"

namespace weft::serve {

constexpr std::size_t kMostInputs = 2048;

// Its requests take turns, input by input. May be used by any thread.
class Embedder {
 public:
  // The model outlives it. Throws api::Failure if the model has no encoder.
  explicit Embedder(api::Model& model) : model_(model), encoder_(model) {}
  // Of an input with the model's special tokens. Opens a lost device again. Throws api::Failure.
  std::vector<float> embed(const std::vector<std::uint32_t>& ids);

 private:
  api::Model& model_;
  std::mutex mutex_;
  api::Encoder encoder_;
};

struct EmbeddingRequest {
  std::vector<std::vector<std::uint32_t>> inputs;  // with special tokens
  std::vector<std::string> fields;                 // that they came from
  bool base64 = false;
};
// Throws RequestError.
EmbeddingRequest parse_embeddings(const std::string& body, const ModelFacts& facts, const api::Model& model);

// An item of the answer's list.
Json embedding_json(std::size_t index, const std::vector<float>& embedding, bool base64);

}  // namespace weft::serve
