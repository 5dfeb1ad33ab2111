// Tools that a model may call, as OpenAI's chats have them.
#pragma once

#include "fields.h"

namespace weft::serve {

constexpr std::size_t kMostTools = 128;

// Reads tools, tool_choice and parallel_tool_calls into the request: its conversation, and what is expected of the
// answer. Throws RequestError.
void read_tools(Fields& fields, CompletionRequest& request);
// A call's function, with its arguments as the text of an object.
Json read_called(Fields& function);
// The tool_calls of an assistant's message.
Json read_tool_calls(const Json& list, const std::string& path);

// The options of the reader of this request's answer.
ReaderOptions reader_options(const CompletionRequest& request, const std::string& chat_template);
// An id for a call: nine letters and digits, which the templates of all models accept.
std::string call_id();

}  // namespace weft::serve
