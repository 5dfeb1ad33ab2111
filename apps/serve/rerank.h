// Ratings of documents, with a model whose vocabulary has "yes" and "no".
#pragma once

#include <optional>
#include <weft/rerank.hpp>

#include "line.h"

namespace weft::serve {

struct RerankRequest {
  std::string query, instruction;
  std::vector<std::string> documents;
  std::size_t top = 0;  // how many results
  bool documents_back = false;
};
// Throws RequestError.
RerankRequest parse_rerank(const std::string& body);

struct Ratings {
  std::vector<float> scores;  // by document
  std::size_t tokens = 0;
};
// The answer, best first.
Json rerank_json(const RerankRequest& request, const Ratings& ratings, const std::string& model);

// Its requests stand in line, document by document. May be used by any thread.
class Rater {
 public:
  // The model outlives it.
  Rater(api::Model& model, std::uint32_t queue, const api::Duty* duty) : model_(model), line_(queue), duty_(duty) {}

  class Place {
   public:
    explicit Place(Rater& rater) : rater_(rater), place_(rater.line_) {}
    // Throws as Line::Place::run, and api::Failure if the model cannot rate.
    api::Reranker::Rating rate(const RerankRequest& request, const std::string& document);

   private:
    Rater& rater_;
    Line::Place place_;
  };

  void close() { line_.close(); }

 private:
  api::Model& model_;
  Line line_;
  const api::Duty* const duty_;            // nullptr: none
  std::optional<api::Reranker> reranker_;  // made by the first request; in its turn
};

}  // namespace weft::serve
