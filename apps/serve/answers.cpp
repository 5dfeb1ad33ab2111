#include "answers.h"

#include <ctime>
#include <random>

#include "../weft/common.h"

namespace weft::serve {
namespace {

Json chunk_json(const AnswerHead& head) {
  return {{"id", head.id},
          {"object", head.chat ? "chat.completion.chunk" : "text_completion"},
          {"created", head.created},
          {"model", head.model},
          {"choices", Json::array()}};
}

// delta: of a chat; text: of a completion.
Json chunk_of(const AnswerHead& head, std::uint32_t index, const Json& delta, const std::string& text,
              const Json& logprobs, const Json& finish) {
  Json choice = {{"index", index}};
  if (head.chat) {
    choice["delta"] = delta;
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = logprobs;
  choice["finish_reason"] = finish;
  Json chunk = chunk_json(head);
  chunk["choices"].push_back(choice);
  return chunk;
}

}  // namespace

std::string random_name() {
  std::random_device random;
  return cli::format("%08x%08x%08x", random(), random(), random());
}

AnswerHead::AnswerHead(const CompletionRequest& request, std::string model_name)
    : chat(request.chat),
      id((request.chat ? "chatcmpl-" : "cmpl-") + random_name()),
      model(std::move(model_name)),
      head(request.task.head),
      created(std::time(nullptr)) {}

const char* finish_reason(bool called, weft_stop stop) {
  if (called) return "tool_calls";
  return stop == WEFT_STOP_LENGTH || stop == WEFT_STOP_CONTEXT ? "length" : "stop";
}

Json usage_json(const AnswerHead& head, const Figures& figures) {
  return {{"prompt_tokens", head.prompt_tokens},
          {"completion_tokens", figures.tokens},
          {"total_tokens", head.prompt_tokens + figures.tokens},
          {"prompt_tokens_details", {{"cached_tokens", figures.cached_tokens}}},
          {"weft",
           {{"head", head.head},
            {"head_bytes_per_token", figures.head_bytes_per_token},
            {"head_rows_per_token", figures.head_rows_per_token},
            {"first_token_s", figures.first_token_seconds},
            {"decode_tokens_per_s", figures.decode_tokens_per_second}}}};
}

Json choice_json(const AnswerHead& head, std::uint32_t index, const std::string& text, const Json& logprobs,
                 const Json& calls, weft_stop stop) {
  Json choice = {{"index", index}};
  if (head.chat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
    if (!calls.empty()) choice["message"]["tool_calls"] = calls;
    if (!calls.empty() && text.empty()) choice["message"]["content"] = nullptr;
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = logprobs;
  choice["finish_reason"] = finish_reason(!calls.empty(), stop);
  return choice;
}

Json answer_json(const AnswerHead& head, const Json& choices, const Figures& figures) {
  return {{"id", head.id},           {"object", head.chat ? "chat.completion" : "text_completion"},
          {"created", head.created}, {"model", head.model},
          {"choices", choices},      {"usage", usage_json(head, figures)}};
}

Json first_chunk(const AnswerHead& head, std::uint32_t index) {
  return chunk_of(head, index, {{"role", "assistant"}, {"content", ""}}, "", nullptr, nullptr);
}

Json text_chunk(const AnswerHead& head, std::uint32_t index, const std::string& text, const Json& logprobs) {
  return chunk_of(head, index, {{"content", text}}, text, logprobs, nullptr);
}

Json calls_chunk(const AnswerHead& head, std::uint32_t index, const Json& calls, const Json& logprobs) {
  Json list = Json::array();
  for (const Json& call : calls) {
    Json part = {{"index", list.size()}};
    part.update(call);
    list.push_back(part);
  }
  return chunk_of(head, index, {{"tool_calls", list}}, "", logprobs, nullptr);
}

Json last_chunk(const AnswerHead& head, std::uint32_t index, bool called, weft_stop stop) {
  return chunk_of(head, index, Json::object(), "", nullptr, finish_reason(called, stop));
}

Json usage_chunk(const AnswerHead& head, const Figures& figures) {
  Json chunk = chunk_json(head);
  chunk["usage"] = usage_json(head, figures);
  return chunk;
}

std::string bytes_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string event(const Json& json) { return "data: " + bytes_of(json) + "\n\n"; }

}  // namespace weft::serve
