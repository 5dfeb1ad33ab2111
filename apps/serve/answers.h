// Answers as JSON, in OpenAI's forms.
#pragma once

#include "protocol.h"

namespace weft::serve {

// What an answer and all chunks of a stream have in common.
struct AnswerHead {
  AnswerHead(const CompletionRequest& request, std::string model);
  bool chat;
  std::string id, model, head;
  std::int64_t created;  // seconds since 1970
  std::size_t prompt_tokens = 0;
};

std::string random_name();  // for ids
// called: the answer is a call of tools.
const char* finish_reason(bool called, weft_stop stop);
Json usage_json(const AnswerHead& head, const Figures& figures);

// A choice of a whole answer. calls: its tool_calls; empty: none.
Json choice_json(const AnswerHead& head, std::uint32_t index, const std::string& text, const Json& logprobs,
                 const Json& calls, weft_stop stop);
Json answer_json(const AnswerHead& head, const Json& choices, const Figures& figures);

// The chunks of a stream.
Json first_chunk(const AnswerHead& head, std::uint32_t index);  // of a chat: it has the role
Json text_chunk(const AnswerHead& head, std::uint32_t index, const std::string& text, const Json& logprobs);
Json calls_chunk(const AnswerHead& head, std::uint32_t index, const Json& calls, const Json& logprobs);
Json last_chunk(const AnswerHead& head, std::uint32_t index, bool called, weft_stop stop);
Json usage_chunk(const AnswerHead& head, const Figures& figures);

// JSON as bytes. Never throws for text that is not UTF-8.
std::string bytes_of(const Json& json);
// An event of a stream.
std::string event(const Json& json);

}  // namespace weft::serve
