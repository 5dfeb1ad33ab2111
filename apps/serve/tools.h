// Tools that a model may call, as OpenAI's chats have them.
#pragma once

#include "fields.h"

namespace weft::serve {

constexpr std::size_t kMostTools = 128;

// Reads tools, tool_choice and parallel_tool_calls into the request: its conversation, and what is expected of the
// answer. Throws RequestError.
void read_tools(Fields& fields, CompletionRequest& request);
// A call's function, with its arguments as an object.
Json read_called(Fields& function);
// The tool_calls of an assistant's message.
Json read_tool_calls(const Json& list, const std::string& path);
// The schema of an answer that must be a call of one of these tools.
Json call_schema(const Json& tools);

// Splits what a model writes into a text and calls.
class ToolReader {
 public:
  explicit ToolReader(const CompletionRequest& request)
      : mode_(request.tool_mode), several_(request.several_calls), tools_(request.tools) {}

  // Takes a part of the answer, and returns the text that is known not to be of a call.
  std::string push(const std::string& text);
  struct End {
    std::string text;  // that is no call after all
    Json calls;        // OpenAI's tool_calls; empty if there are none
  };
  End finish();
  bool holds() const { return !held_.empty(); }  // text that may be of a call

 private:
  bool parse_calls(std::string_view text, Json& calls) const;
  bool add_call(const std::string& text, Json& calls) const;

  const ToolMode mode_;
  const bool several_;
  const Json& tools_;
  std::string held_;
};

}  // namespace weft::serve
