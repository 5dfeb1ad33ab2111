// Conversations as prompts: the model's chat template, and what to do where it does not know tools.
#pragma once

#include <memory>

#include "protocol.h"

namespace weft::serve {

// The conversations of a model, with the notation that its chat template teaches.
class Conversations {
 public:
  explicit Conversations(const api::Model& model);

  // The prompt of the request's conversation, and how its answer is to be read. A template that knows no tools, or
  // refuses how a client names its calls, gets them in a form that it takes. Throws RequestError and api::Failure.
  void prepare(CompletionRequest& request) const;

 private:
  std::vector<std::uint32_t> ids(const Json& messages, const CompletionRequest& request, bool tools) const;
  bool reasons(const CompletionRequest& request) const;
  void begin_reasoning(CompletionRequest& request) const;
  void begin_channel(const ReasoningMarks& marks, CompletionRequest& request) const;
  void force_call(CompletionRequest& request) const;
  void append(CompletionRequest& request, const std::string& text) const;
  std::vector<std::uint32_t> render(const CompletionRequest& request) const;
  std::string begun(const std::vector<std::uint32_t>& prompt) const;

  const api::Model& model_;
  std::string chat_template_;  // empty: none
  std::string tool_template_;  // for conversations with tools; empty: the same
  std::shared_ptr<const std::map<std::uint32_t, std::string>> marks_;
};

// For tests: messages and tools as texts and plain messages. folded: without messages of the role system.
Json without_tools(const Json& messages, const Json& tools, bool folded);

}  // namespace weft::serve
