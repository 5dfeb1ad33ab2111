// Embeddings of texts, with a model that has an encoder.
#pragma once

#include <mutex>

#include "protocol.h"

namespace weft::serve {

constexpr std::size_t kMostInputs = 2048;

// Its requests take turns, input by input. May be used by any thread.
class Embedder {
 public:
  // queue: requests that may wait while one is answered. The model outlives it. Throws api::Failure if the model has no
  // encoder.
  Embedder(api::Model& model, std::uint32_t queue) : model_(model), most_requests_(queue + 1), encoder_(model) {}

  // A request among those that take turns. Throws Unavailable.
  class Place {
   public:
    explicit Place(Embedder& embedder);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // The vector of an input with the model's special tokens. Opens a lost device again. Throws Unavailable and
    // api::Failure.
    std::vector<float> embed(const std::vector<std::uint32_t>& ids);

   private:
    Embedder& embedder_;
  };

  void close();  // ends all requests after their present input, and takes no more
  // Why no request can be answered any more; empty: they can.
  std::string broken() const;

 private:
  void check_open() const;

  api::Model& model_;
  const std::uint32_t most_requests_;

  mutable std::mutex mutex_;  // of what follows
  std::uint32_t requests_ = 0;
  bool closing_ = false;
  std::string broken_;

  std::mutex turn_;  // of the encoder
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
