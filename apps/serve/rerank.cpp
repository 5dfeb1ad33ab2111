#include "rerank.h"

#include <algorithm>
#include <numeric>

#include "../weft/common.h"
#include "embeddings.h"
#include "fields.h"

namespace weft::serve {

api::Reranker::Rating Rater::Place::rate(const RerankRequest& request, const std::string& document) {
  return place_.run(rater_.model_, [&] {
    if (!rater_.reranker_) {
      rater_.reranker_.emplace(rater_.model_);
      if (rater_.duty_) rater_.reranker_->use_duty(*rater_.duty_);
    }
    return rater_.reranker_->rate(request.query, document, request.instruction);
  });
}

RerankRequest parse_rerank(const std::string& body) {
  const Json json = parse_body(body);
  Fields fields(json, "");
  fields.text("model");  // as in chats
  RerankRequest request;
  request.query = text_of(fields.need("query"), "query");
  request.instruction = fields.text("instruction").value_or("");
  const Json& documents = fields.need("documents");
  if (!documents.is_array() || documents.empty())
    throw bad_field("documents", "documents must be an array of texts.", "invalid_type");
  if (documents.size() > kMostInputs)
    throw bad_field("documents",
                    cli::format("there are %zu documents, at most %zu are allowed.", documents.size(), kMostInputs));
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string field = cli::format("documents[%zu]", i);
    const Json& document = documents[i];
    const bool is_object = document.is_object() && document.contains("text");
    request.documents.push_back(text_of(is_object ? document["text"] : document, is_object ? field + ".text" : field));
  }
  const auto most = static_cast<std::int64_t>(kMostInputs);
  request.top =
      std::min<std::size_t>(documents.size(), static_cast<std::size_t>(fields.whole("top_n", 1, most).value_or(most)));
  request.documents_back = fields.boolean("return_documents").value_or(false);
  fields.refuse_rest();
  return request;
}

Json rerank_json(const RerankRequest& request, const Ratings& ratings, const std::string& model) {
  std::vector<std::size_t> order(ratings.scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return ratings.scores[a] > ratings.scores[b]; });
  Json results = Json::array();
  for (std::size_t i = 0; i < request.top; ++i) {
    Json result = {{"index", order[i]}, {"relevance_score", ratings.scores[order[i]]}};
    if (request.documents_back) result["document"] = {{"text", request.documents[order[i]]}};
    results.push_back(std::move(result));
  }
  return {{"object", "list"},
          {"model", model},
          {"results", results},
          {"usage", {{"prompt_tokens", ratings.tokens}, {"total_tokens", ratings.tokens}}}};
}

}  // namespace weft::serve
