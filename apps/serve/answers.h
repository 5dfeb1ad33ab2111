// Answers as JSON, in OpenAI's forms.
#pragma once

#include <memory>

#include "fields.h"
#include "protocol.h"

namespace weft::serve {

// The text of a choice since the last part.
struct AnswerPart {
  enum class Kind { text, reasoning, call, arguments, end };
  Kind kind = Kind::text;
  std::uint32_t index = 0;
  std::string text;               // of the answer or the reasoning; a call's arguments, or more of the last call's
  std::string id, name;           // of a call
  Json logprobs;                  // of its tokens; null: not wanted
  std::optional<weft_stop> stop;  // of the end
};
struct Answer {
  std::vector<AnswerPart> parts;
  Json logprobs;  // of all its tokens
};

// Writes one answer, whole or as a stream. A stream's parts come as events: first(), part() for each part, last(). If
// something fails in between, failed() ends it.
class AnswerForm {
 public:
  using Events = std::vector<std::string>;
  virtual ~AnswerForm() = default;
  virtual Json whole(const std::vector<Answer>& choices, const Figures& figures) = 0;
  virtual Events first() = 0;
  virtual Events part(const AnswerPart& part, const Figures& figures) = 0;
  virtual Events last(const Figures& figures) = 0;
  virtual Events failed(const RequestError& error) = 0;
};

// The form that the request's protocol has. The request outlives it.
std::unique_ptr<AnswerForm> answer_form(const CompletionRequest& request, const std::string& model);

bool is_cut(weft_stop stop);  // by the number of tokens
Json weft_figures(const CompletionRequest& request, const Figures& figures);
std::string random_name();  // for ids

}  // namespace weft::serve
