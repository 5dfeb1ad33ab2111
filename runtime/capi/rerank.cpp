// The C API's rerankers.
#include <cmath>
#include <optional>

#include "capi/handles.h"
#include "model/table_rows.h"
#include "run/encoder.h"
#include "weft/rerank.h"

using namespace weft;
using namespace weft::capi;

namespace {

const std::string kUsual = "Given a web search query, retrieve relevant passages that answer the query";

// The prompt of Qwen3-Reranker's authors.
std::vector<TextPiece> usual_prompt(const std::string& instruction, const std::string& query,
                                    const std::string& document) {
  return {{"<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
           "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: ",
           Special::parse},
          {instruction, Special::plain},
          {"\n<Query>: ", Special::parse},
          {query, Special::plain},
          {"\n<Document>: ", Special::parse},
          {document, Special::plain},
          {"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", Special::parse}};
}

bool knows_documents(const weft_model& model) {
  const std::string& text = model.tokenizer.chat_template();
  const auto has_role = [&](const std::string& role) {
    return text.find('"' + role + '"') != text.npos || text.find("'" + role + "'") != text.npos;
  };
  return model.chat_template && has_role("query") && has_role("document");
}

// As sentence-transformers: one message for each role.
std::vector<TextPiece> templated(const weft_model& model, const std::string& instruction, const std::string& query,
                                 const std::string& document) {
  std::vector<Message> messages;
  if (!instruction.empty()) messages.push_back({"system", instruction});
  messages.push_back({"query", query});
  messages.push_back({"document", document});
  return model.chat_template->render(messages, true);
}

std::optional<uint32_t> token_spelled(const weft_model& model, const std::string& text) {
  for (uint32_t id = 0; id < model.model.config.vocab; ++id)
    if (model.tokenizer.bytes(id) == text) return id;
  return std::nullopt;
}

RelevanceTokens relevance_tokens(const weft_model& model) {
  const Config& config = model.model.config;
  if (config.layer_kind.sees_all || config.encoder || config.sentences.given)
    throw Error(Code::unsupported, "the model says neither \"yes\" nor \"no\" of a document", "model",
                "it makes embeddings; use a reranker such as Qwen3-Reranker");
  if (config.sentences.relevance) {
    const RelevanceTokens& own = *config.sentences.relevance;
    if (own.yes >= config.vocab || own.no.value_or(0) >= config.vocab)
      throw Error(Code::bad_file, "the tokens that rate a document are outside the vocabulary", "model");
    return own;
  }
  const auto yes = token_spelled(model, "yes"), no = token_spelled(model, "no");
  if (!yes || !no) throw Error(Code::unsupported, "the vocabulary has no tokens \"yes\" and \"no\"", "model");
  return {*yes, *no};
}

}  // namespace

struct weft_reranker : DeviceUser {
  explicit weft_reranker(const weft_model* of) : DeviceUser(of), tokens(relevance_tokens(*of)) { enter_device(); }
  void leave_device() override { encoder.reset(); }
  void enter_device() override {
    encoder.emplace(model->model, model->model.config.context, Policy::throughput, std::vector{duty.get()});
    direction = tokens.direction;
    if (!direction.empty()) return;
    const Model& whole = model->model;
    const std::vector<uint32_t> ids = {tokens.yes, tokens.no.value_or(tokens.yes)};
    const std::vector<float> rows = table_rows(whole, whole.weights.output_table(), ids, 1);
    direction.assign(rows.begin(), rows.begin() + whole.config.width);
    for (size_t i = 0; tokens.no && i < direction.size(); ++i) direction[i] -= rows[direction.size() + i];
  }
  Encoder& on_device() {
    need_weights(*model);
    if (!encoder)
      throw Error(Code::device_lost, "the device was lost", "reranker", "weft_model_recover opens it again");
    return *encoder;
  }

  const RelevanceTokens tokens;
  UncancelledDuty duty;
  std::optional<Encoder> encoder;
  std::vector<float> direction;  // (width): the row of "yes" less that of "no"
};

weft_status weft_reranker_create(const weft_model* model, weft_reranker** reranker, weft_error* error) {
  return guard(error, [&] {
    require(model && reranker, "model or reranker", "it is NULL");
    const auto lock = lock_users(*model);
    need_weights(*model);
    model->model.weights.need_all_rows("ratings");
    model->model.need_plain_head("ratings");
    *reranker = new weft_reranker(model);
  });
}

void weft_reranker_free(weft_reranker* reranker) { destroy(reranker); }

weft_status weft_reranker_use_duty(weft_reranker* reranker, weft_duty* duty, weft_error* error) {
  return guard(error, [&] {
    require(reranker, "reranker", "it is NULL");
    const InUse use(reranker, "reranker");
    reranker->duty.use(duty);
  });
}

weft_status weft_reranker_score(weft_reranker* reranker, const char* instruction, const char* query,
                                const char* document, float* score, size_t* tokens, weft_error* error) {
  return guard(error, [&] {
    require(reranker && query && document && score, "reranker, query, document or score", "it is NULL");
    const InUse use(reranker, "reranker");
    const weft_model& model = *reranker->model;
    const SentenceConfig& sentences = model.model.config.sentences;
    const std::string asked = instruction ? instruction : sentences.default_prompt;
    const std::vector<TextPiece> prompt = knows_documents(model)
                                              ? templated(model, asked, query, document)
                                              : usual_prompt(asked.empty() ? kUsual : asked, query, document);
    const std::vector<uint32_t> ids = model.tokenizer.encode(prompt);
    // The end of the prompt decides, so that nothing is cut.
    if (sentences.most_tokens > 0 && ids.size() > sentences.most_tokens)
      throw Error(Code::context_full,
                  std::to_string(ids.size()) + " tokens, the model reads " + std::to_string(sentences.most_tokens),
                  "document", "give a shorter document");
    Encoder& encoder = reranker->on_device();
    encoder.run(ids);
    const std::vector<float> state = encoder.last_state();
    double logit = 0;
    for (size_t i = 0; i < state.size(); ++i) logit += double{state[i]} * reranker->direction[i];
    *score = static_cast<float>(1 / (1 + std::exp(-logit)));
    if (tokens) *tokens = ids.size();
  });
}
