// OpenAI's Responses API, without a memory of its own: nothing is stored.
#pragma once

#include "answers.h"

namespace weft::serve {

// Throws RequestError.
CompletionRequest parse_response(const std::string& body, const ModelFacts& model);

// An answer has a message, calls of functions, or both in this order.
class ResponseForm final : public AnswerForm {
 public:
  ResponseForm(const CompletionRequest& request, std::string model);
  Json whole(const std::vector<AnswerPart>& choices, const Figures& figures) override;
  Events first() override;
  Events part(const AnswerPart& part, const Figures& figures) override;
  Events last(const Figures& figures) override;
  Events failed(const RequestError& error) override;

 private:
  std::string event(const std::string& type, const Json& fields);
  void open_message(Events& events);
  void close_message(Events& events, const char* status);
  void add_call(Events& events, const Json& call);
  Json content() const;
  Json message(const char* status) const;
  Json response(const char* status) const;
  Json finished(const Figures& figures) const;
  Json usage(const Figures& figures) const;

  const CompletionRequest& request_;
  const std::string id_, message_id_, model_;
  const std::int64_t created_;  // seconds since 1970
  std::uint64_t sequence_ = 0;  // events
  bool open_ = false;           // the message
  std::string text_;
  Json logprobs_ = Json::array();
  Json output_ = Json::array();  // items that are finished
  bool cut_ = false;
};

}  // namespace weft::serve
