#include "answers.h"

#include <ctime>
#include <map>
#include <random>

#include "../weft/common.h"
#include "messages.h"
#include "responses.h"

namespace weft::serve {
namespace {

std::string event(const Json& json) { return "data: " + bytes_of(json) + "\n\n"; }

const char* finish_reason(weft_stop stop, bool calls) {
  if (is_cut(stop)) return "length";
  return calls ? "tool_calls" : "stop";
}

// A chat's or a completion's.
class CompletionForm final : public AnswerForm {
 public:
  CompletionForm(const CompletionRequest& request, std::string model)
      : request_(request),
        chat_(request.form == Form::chat),
        id_((chat_ ? "chatcmpl-" : "cmpl-") + random_name()),
        model_(std::move(model)),
        created_(std::time(nullptr)) {}

  Json whole(const std::vector<Answer>& choices, const Figures& figures) override {
    Json list = Json::array();
    for (const Answer& choice : choices) list.push_back(choice_of(choice, list.size()));
    return {{"id", id_},           {"object", chat_ ? "chat.completion" : "text_completion"},
            {"created", created_}, {"model", model_},
            {"choices", list},     {"usage", usage(figures)}};
  }

  Events first() override {
    Events events;
    for (std::uint32_t i = 0; chat_ && i < request_.choices; ++i)
      events.push_back(told(chunk(i, {{"role", "assistant"}, {"content", ""}}, "", nullptr, nullptr), {}));
    return events;
  }

  Events part(const AnswerPart& part, const Figures& figures) override {
    std::uint32_t& calls = calls_[part.index];
    Json delta = Json::object(), finish = nullptr;
    switch (part.kind) {
      case AnswerPart::Kind::text:
        delta["content"] = part.text;
        break;
      case AnswerPart::Kind::reasoning:
        delta["reasoning_content"] = part.text;
        break;
      case AnswerPart::Kind::call: {
        Json call = {{"index", calls++}};
        call.update(call_of(part));
        delta["tool_calls"] = Json::array({call});
        break;
      }
      case AnswerPart::Kind::arguments:
        delta["tool_calls"] = Json::array({{{"index", calls - 1}, {"function", {{"arguments", part.text}}}}});
        break;
      case AnswerPart::Kind::end:
        finish = finish_reason(*part.stop, calls > 0);
    }
    return {told(chunk(part.index, delta, part.text, part.logprobs, finish), figures)};
  }

  Events last(const Figures& figures) override {
    Events events;
    if (request_.include_usage) {
      Json end = empty_chunk();
      end["usage"] = usage(figures);
      events.push_back(event(end));
    }
    events.emplace_back("data: [DONE]\n\n");
    return events;
  }

  Events failed(const RequestError& error) override { return {event(error.json())}; }

 private:
  Json usage(const Figures& figures) const {
    const std::size_t prompt = request_.task.prompt.size();
    return {{"prompt_tokens", prompt},
            {"completion_tokens", figures.tokens},
            {"total_tokens", prompt + figures.tokens},
            {"prompt_tokens_details", {{"cached_tokens", figures.cached_tokens}}},
            {"completion_tokens_details", {{"reasoning_tokens", figures.reasoning_tokens}}},
            {"weft", weft_figures(request_, figures)}};
  }

  static Json call_of(const AnswerPart& part) {
    return {{"id", part.id}, {"type", "function"}, {"function", {{"name", part.name}, {"arguments", part.text}}}};
  }

  Json choice_of(const Answer& answer, std::size_t index) const {
    std::string text, reasoning;
    Json calls = Json::array();
    for (const AnswerPart& part : answer.parts) {
      if (part.kind == AnswerPart::Kind::text) text += part.text;
      if (part.kind == AnswerPart::Kind::reasoning) reasoning += part.text;
      if (part.kind == AnswerPart::Kind::call) calls.push_back(call_of(part));
    }
    Json choice = {{"index", index}};
    if (chat_) {
      Json& message = choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
      if (!reasoning.empty()) message["reasoning_content"] = reasoning;
      if (!calls.empty()) message["tool_calls"] = calls;
      if (!calls.empty() && text.empty()) message["content"] = nullptr;
    } else {
      choice["text"] = text;
    }
    choice["logprobs"] = answer.logprobs;
    choice["finish_reason"] = finish_reason(*answer.parts.back().stop, !calls.empty());
    return choice;
  }

  Json empty_chunk() const {
    return {{"id", id_},
            {"object", chat_ ? "chat.completion.chunk" : "text_completion"},
            {"created", created_},
            {"model", model_},
            {"choices", Json::array()}};
  }

  // delta: of a chat; text: of a completion.
  Json chunk(std::uint32_t index, const Json& delta, const std::string& text, const Json& logprobs,
             const Json& finish) const {
    Json choice = {{"index", index}};
    if (chat_) {
      choice["delta"] = delta;
    } else {
      choice["text"] = text;
    }
    choice["logprobs"] = logprobs;
    choice["finish_reason"] = finish;
    Json chunk = empty_chunk();
    chunk["choices"].push_back(choice);
    return chunk;
  }

  std::string told(Json chunk, const Figures& figures) const {
    if (request_.continuous_usage) {
      chunk["usage"] = usage(figures);
    } else if (request_.include_usage) {
      chunk["usage"] = nullptr;
    }
    return event(chunk);
  }

  const CompletionRequest& request_;
  const bool chat_;
  const std::string id_, model_;
  const std::int64_t created_;                    // seconds since 1970
  std::map<std::uint32_t, std::uint32_t> calls_;  // of a stream's choices, so far
};

}  // namespace

std::unique_ptr<AnswerForm> answer_form(const CompletionRequest& request, const std::string& model) {
  if (request.form == Form::response) return std::make_unique<ResponseForm>(request, model);
  if (request.form == Form::message) return std::make_unique<MessageForm>(request, model);
  return std::make_unique<CompletionForm>(request, model);
}

bool is_cut(weft_stop stop) { return stop == WEFT_STOP_LENGTH || stop == WEFT_STOP_CONTEXT; }

Json weft_figures(const CompletionRequest& request, const Figures& figures) {
  return {{"slot", figures.slot},
          {"head", request.task.head},
          {"head_bytes_per_token", figures.head_bytes_per_token},
          {"head_rows_per_token", figures.head_rows_per_token},
          {"drafted_tokens", figures.guesses.drafted_tokens},
          {"accepted_tokens", figures.guesses.accepted_tokens},
          {"first_token_s", figures.first_token_seconds},
          {"decode_tokens_per_s", figures.decode_tokens_per_second}};
}

std::string random_name() {
  std::random_device random;
  return cli::format("%08x%08x%08x", random(), random(), random());
}

}  // namespace weft::serve
