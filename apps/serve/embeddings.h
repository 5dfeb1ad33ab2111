// Embeddings of texts, with a model that has an encoder.
#pragma once

#include "line.h"

namespace weft::serve {

constexpr std::size_t kMostInputs = 2048;

// Its requests take turns, input by input. May be used by any thread.
class Embedder {
 public:
  // queue: requests that may wait while one is answered. duty: nullptr: none. The model outlives it. Throws
  // api::Failure if the model has no encoder.
  Embedder(api::Model& model, std::uint32_t queue, const api::Duty* duty)
      : model_(model), line_(queue), encoder_(model) {
    if (duty) encoder_.use_duty(*duty);
  }

  // A request among those that take turns. Throws Unavailable.
  class Place {
   public:
    explicit Place(Embedder& embedder) : embedder_(embedder), place_(embedder.line_) {}
    // The vector of an input with the model's special tokens. dimensions: how many of its first numbers; 0: all. Throws
    // as Line::Place::run.
    std::vector<float> embed(const std::vector<std::uint32_t>& ids, std::uint32_t dimensions);

   private:
    Embedder& embedder_;
    Line::Place place_;
  };

  void close() { line_.close(); }  // ends all requests after their present input, and takes no more
  std::string broken() const { return line_.broken(); }

 private:
  api::Model& model_;
  Line line_;
  api::Encoder encoder_;
};

struct EmbeddingRequest {
  std::vector<std::vector<std::uint32_t>> inputs;  // with special tokens
  std::vector<std::string> fields;                 // that they came from
  std::uint32_t dimensions = 0;                    // 0: all
  bool base64 = false;
};
// Throws RequestError.
EmbeddingRequest parse_embeddings(const std::string& body, const ModelFacts& facts, const api::Model& model);

// An item of the answer's list.
Json embedding_json(std::size_t index, const std::vector<float>& embedding, bool base64);

}  // namespace weft::serve
