// Chat templates. Input: Jinja source, a zero byte, and a JSON object with "messages" and "tools", else the user's
// text.
#include "template/chat_template.h"

#include <algorithm>

#include "format/json.h"
#include "fuzz_support.h"

namespace {

using weft::JsonValue;

// Returns the input of weft_apply_chat_template_json: an object whose messages are objects. Else null.
JsonValue conversation_of(std::string_view text) {
  if (!text.starts_with('{')) return {};
  try {
    const JsonValue json = weft::parse_json(text, "fuzz.json");
    const auto is_object = [](const JsonValue& value) { return value.is_object(); };
    const JsonValue *messages = json.find("messages"), *tools = json.find("tools");
    const bool good = messages && messages->is_array() && std::ranges::all_of(messages->items(), is_object) &&
                      (!tools || tools->is_array());
    return good ? json : JsonValue();
  } catch (const weft::Error&) {
    return {};
  }
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  const auto [template_text, rest] = at_zero(data, size);
  const std::string source(template_text);
  // A byte that only messages hold, unless the source spells it.
  const std::string marker = "\x01", said = marker + std::string(rest);
  const bool source_has_marker = source.find_first_of("\\\x01") != std::string::npos;
  const JsonValue conversation = conversation_of(rest);
  const JsonValue* const tools = conversation.find("tools");
  expect_answer_or_error([&] {
    const ChatTemplate chat(source, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, "fuzz.gguf");
    const Message messages[] = {{"system", marker}, {"user", said}, {"assistant", marker + "b"}, {"user", said}};
    const auto pieces = conversation.is_null()
                            ? chat.render(messages, true)
                            : chat.render(*conversation.find("messages"), tools ? *tools : JsonValue(), true);
    for (const auto& piece : pieces) {
      if (piece.text.empty()) std::abort();
      // Special tokens come from the template only: no byte of a message may be parsed.
      const bool marked = piece.text.find('\x01') != std::string::npos;
      if (marked && !source_has_marker && piece.special == Special::parse) std::abort();
    }
  });
}
