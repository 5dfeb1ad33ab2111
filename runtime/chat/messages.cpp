#include "chat/messages.h"

#include <algorithm>
#include <string>

#include "base/json_digits.h"
#include "chat/notations.h"

namespace weft {
namespace {

// Deeper values would overflow the stack of code that recurses into them.
constexpr JsonLimits kText = {uint64_t{1} << 28, uint64_t{1} << 24, 100};

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

const JsonValue* calls_of(const JsonValue& message) {
  const JsonValue* calls = message.find("tool_calls");
  return calls && calls->is_array() && !calls->empty() ? calls : nullptr;
}

std::string text_of(const JsonValue& message, std::string_view name) {
  const JsonValue* value = message.find(name);
  return value && value->is_string() ? value->text() : std::string();
}

// The object in the text; null if it is none.
JsonValue object_in(const std::string& text) {
  try {
    JsonValue object = parse_json_digits(text, kText, Code::invalid_argument, "conversation");
    return object.is_object() ? std::move(object) : JsonValue();
  } catch (const Error&) {
    return {};
  }
}

void set_arguments(JsonValue& message, Arguments form) {
  if (!calls_of(message)) return;
  for (JsonValue& call : message["tool_calls"].items()) {
    const JsonValue* function = call.find("function");
    const JsonValue* arguments = function ? function->find("arguments") : nullptr;
    if (!arguments) continue;
    if (form == Arguments::texts) {
      if (arguments->is_object()) call["function"]["arguments"] = dump_digits(*arguments);
    } else if (arguments->is_string()) {
      JsonValue object = object_in(arguments->text());
      if (object.is_object()) call["function"]["arguments"] = std::move(object);
    }
  }
}

void set_thinking(JsonValue& message, bool channels) {
  const std::string reasoning = text_of(message, "reasoning_content");
  // gpt-oss's template refuses both beside calls.
  if (reasoning.empty() || (channels && calls_of(message) && !text_of(message, "content").empty())) return;
  if (!message.contains("thinking")) message["thinking"] = reasoning;
}

std::string name_of_call(const JsonValue& calls, const JsonValue& result) {
  const std::string id = text_of(result, "tool_call_id");
  for (const JsonValue& call : calls.items())
    if (const JsonValue* function = call.find("function"); function && !id.empty() && text_of(call, "id") == id)
      return text_of(*function, "name");
  return text_of(result, "name");
}

// Moves the results that follow calls into the message with these, and the answer that then follows, too: they are one
// turn.
JsonValue with_tool_responses(const JsonValue& messages) {
  JsonValue turns = JsonValue::array();
  for (const JsonValue& message : messages.items()) {
    JsonValue* const last = turns.empty() ? nullptr : &turns.items().back();
    const JsonValue* const calls = last ? calls_of(*last) : nullptr;
    const std::string role = text_of(message, "role"), content = text_of(message, "content");
    if (calls && role == "tool") {
      JsonValue object = object_in(content);
      JsonValue response = {{"name", name_of_call(*calls, message)},
                            {"response", object.is_null() ? JsonValue(content) : std::move(object)}};
      (*last)["tool_responses"].push_back(std::move(response));
    } else if (calls && role == "assistant" && !calls_of(message) && last->contains("tool_responses")) {
      (*last)["content"] = content;
    } else {
      turns.push_back(message);
    }
  }
  return turns;
}

}  // namespace

JsonValue messages_for(std::string_view chat_template, JsonValue messages, Arguments form) {
  const bool thinking = has(chat_template, ".thinking") && !has(chat_template, "reasoning_content");
  bool asks_for_none = false;
  for (const std::string_view content : {"content", "content']", "content\"]"})
    for (const std::string_view test : {" is not none", " is none"})
      asks_for_none = asks_for_none || has(chat_template, std::string(content) + std::string(test));
  for (JsonValue& message : messages.items()) {
    set_arguments(message, form);
    if (thinking) set_thinking(message, has_channels(chat_template));
    if (asks_for_none && calls_of(message) && text_of(message, "role") == "assistant" && message.contains("content") &&
        message["content"].is_string() && message["content"].text().empty())
      message["content"] = JsonValue();
  }
  const bool early_gemma = has(chat_template, "tool_responses") && has(chat_template, "'<|tool_call>call:'") &&
                           !has(chat_template, "OpenAI Chat Completions:");
  return early_gemma && has_calls(messages) ? with_tool_responses(messages) : messages;
}

bool has_calls(const JsonValue& messages) {
  return std::ranges::any_of(messages.items(), [](const JsonValue& message) { return calls_of(message) != nullptr; });
}

}  // namespace weft
