// Anthropic's Messages API.
#pragma once

#include "answers.h"

namespace weft::serve {

// Throws RequestError. counts: only the prompt's tokens are asked for.
CompletionRequest parse_message(const std::string& body, const ModelFacts& model, bool counts = false);
// An error in the form of this API.
Json message_error(const RequestError& error);

class MessageForm final : public AnswerForm {
 public:
  MessageForm(const CompletionRequest& request, std::string model);
  Json whole(const std::vector<Answer>& choices, const Figures& figures) override;
  Events first() override;
  Events part(const AnswerPart& part, const Figures& figures) override;
  Events last(const Figures& figures) override;
  Events failed(const RequestError& error) override;

 private:
  Json message() const;
  Json usage(const Figures& figures) const;
  void open(Events& events, AnswerPart::Kind kind, const AnswerPart& part);
  void close(Events& events);

  const CompletionRequest& request_;
  const std::string id_, model_;
  std::optional<AnswerPart::Kind> open_;  // the block that is being written
  std::string text_;                      // of it; a call's arguments
  Json block_;
  Json content_ = Json::array();  // blocks that are finished
  Json stop_reason_, stop_sequence_;
};

}  // namespace weft::serve
