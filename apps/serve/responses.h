// OpenAI's Responses API, without a memory of its own: nothing is stored.
#pragma once

#include "answers.h"

namespace weft::serve {

// Throws RequestError.
CompletionRequest parse_response(const std::string& body, const ModelFacts& model);

// An answer has reasoning, messages and calls of functions, in the order of the model.
class ResponseForm final : public AnswerForm {
 public:
  ResponseForm(const CompletionRequest& request, std::string model);
  Json whole(const std::vector<Answer>& choices, const Figures& figures) override;
  Events first() override;
  Events part(const AnswerPart& part, const Figures& figures) override;
  Events last(const Figures& figures) override;
  Events failed(const RequestError& error) override;

 private:
  std::string event(const std::string& type, const Json& fields);
  Json place() const;
  void open(Events& events, AnswerPart::Kind kind, const AnswerPart& part);
  void add(Events& events, const AnswerPart& part);
  void close(Events& events, const char* status);
  Json content() const;
  Json item(const char* status) const;
  Json response(const char* status) const;
  Json finished(const Figures& figures) const;
  Json usage(const Figures& figures) const;

  const CompletionRequest& request_;
  const std::string id_, model_;
  const std::int64_t created_;            // seconds since 1970
  std::uint64_t sequence_ = 0;            // events
  std::optional<AnswerPart::Kind> open_;  // the item that is being written: text, reasoning or a call
  std::string item_id_, call_id_, name_;
  std::string text_;  // of the item; a call's arguments
  Json logprobs_ = Json::array();
  Json output_ = Json::array();  // items that are finished
  bool cut_ = false;
};

}  // namespace weft::serve
