// weft rerank: documents by how well they answer a query.
#include <algorithm>
#include <iostream>
#include <weft/rerank.hpp>

#include "common.h"

namespace weft::cli {
namespace {

struct RerankArgs {
  ModelArgs model;
  std::string query, file, instruction;
  std::vector<std::string> documents;
  std::uint32_t top = 0;
  bool json = false;
};

void rerank(const RerankArgs& args) {
  if (args.file.empty() == args.documents.empty())
    throw UsageError("-f, DOCUMENT",
                     args.file.empty() ? "give documents, or a file of them" : "give documents or a file, not both");
  const std::vector<std::string> documents = args.file.empty() ? args.documents : split_lines(read_text(args.file));
  require_utf8("QUERY", args.query);
  for (const std::string& document : documents) require_utf8(args.file.empty() ? "DOCUMENT" : "-f", document);
  const api::Model model = load_model(args.model);
  api::Reranker reranker(model);
  std::vector<std::pair<float, std::size_t>> found;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    try {
      found.emplace_back(reranker.rate(args.query, documents[i], args.instruction).score, i);
    } catch (const api::Failure& failure) {
      throw api::Failure(failure.status(), failure.sentence(), format("document %zu", i + 1), failure.hint());
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (args.top > 0 && args.top < found.size()) found.resize(args.top);
  Json results = Json::array();
  for (const auto& [score, index] : found) {
    if (!args.json) std::cout << format("%.4f  ", static_cast<double>(score)) << documents[index] << std::endl;
    results.push_back({{"index", index}, {"score", score}, {"document", documents[index]}});
  }
  if (args.json) print_json({{"results", results}});
}

}  // namespace

void add_rerank(CLI::App& app) {
  auto args = std::make_shared<RerankArgs>();
  CLI::App* command = app.add_subcommand(
      "rerank", "Sort documents by how well they answer a query, with a model such as Qwen3-Reranker");
  command->footer(
      "Prints the documents, the best first, each after its score: 0 to 1, how likely the model says \"yes\".");
  add_model_options(command, args->model);
  command->add_option("QUERY", args->query, "the query")->required();
  command->add_option("DOCUMENT", args->documents, "documents");
  command->add_option("-f,--file", args->file, "file of documents, one on each line")->type_name("FILE");
  command->add_option("--instruction", args->instruction, "what is asked for (default: passages that answer the query)")
      ->type_name("TEXT");
  command->add_option("--top", args->top, "only the N best")->type_name("N")->transform(whole(1));
  add_json_option(command, args->json);
  command->callback([args] { rerank(*args); });
}

}  // namespace weft::cli
