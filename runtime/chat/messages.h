// Messages of a conversation as a model's chat template reads them.
#pragma once

#include <string_view>

#include "base/json_value.h"

namespace weft {

// Form of the arguments of tool calls: templates want one or the other.
enum class Arguments { objects, texts };

// Changes OpenAI's messages, objects all, into those that the template knows:
//   - arguments of calls have the form;
//   - "reasoning_content" is "thinking" for templates that only read that (gpt-oss, LFM 2.5);
//   - an empty content beside calls is null for templates that ask whether it is none (DeepSeek);
//   - results of tools are "tool_responses" of the message with the calls for those that read no others (early Gemma
//   4).
JsonValue messages_for(std::string_view chat_template, JsonValue messages, Arguments form);

// True if a message has calls.
bool has_calls(const JsonValue& messages);

}  // namespace weft
