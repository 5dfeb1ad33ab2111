// Log-probabilities of generated tokens, in OpenAI's forms.
#pragma once

#include "protocol.h"

namespace weft::serve {

class LogprobWriter {
 public:
  LogprobWriter(const api::Model& model, const CompletionRequest& request)
      : model_(model), chat_(request.form != Form::completion), wanted_(request.task.logprobs) {}

  // The "logprobs" of a choice whose text came with these tokens; null unless the request wants them. The tokens of
  // a stream come one part after another.
  Json json(const std::vector<TokenLogprobs>& tokens);

 private:
  Json content(const std::vector<TokenLogprobs>& tokens) const;
  Json lists(const std::vector<TokenLogprobs>& tokens);

  const api::Model& model_;
  const bool chat_;
  const std::optional<std::uint32_t> wanted_;
  std::size_t characters_ = 0;  // that have begun in the tokens so far
};

}  // namespace weft::serve
