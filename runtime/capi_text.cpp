// The C API: tokens one by one, and conversations with tools.
#include "weft/text.h"

#include <algorithm>

#include "base/json_value.h"
#include "capi.h"

using namespace weft;
using namespace weft::capi;

namespace {

// Deeper values would overflow the stack of whoever walks through them.
constexpr JsonLimits kConversation = {uint64_t{1} << 28, uint64_t{1} << 24, 100};

bool same_text(const std::vector<TextPiece>& a, const std::vector<TextPiece>& b) {
  return std::ranges::equal(a, b, [](const TextPiece& x, const TextPiece& y) { return x.text == y.text; });
}

// Throws if the prompt is the same without the tools, or without the tool_calls.
void check_tools_are_used(const ChatTemplate& chat, const std::vector<TextPiece>& prompt, const JsonValue& messages,
                          const JsonValue& tools) {
  const auto refuse = [](const char* place) {
    throw Error(Code::unsupported, "the model's chat template does not know tools", place, "use a model that does");
  };
  if (!tools.empty() && same_text(prompt, chat.render(messages, nullptr, true))) refuse("tools");
  JsonValue without = messages;
  bool calls = false;
  for (JsonValue& message : without.items()) calls = message.erase("tool_calls") || calls;
  if (calls && same_text(prompt, chat.render(without, tools, true))) refuse("messages");
}

}  // namespace

weft_status weft_token_bytes(const weft_model* model, uint32_t id, char* bytes, size_t capacity, size_t* count,
                             int* control, weft_error* error) {
  return guard(error, [&] {
    require(model && (bytes || capacity == 0) && count && control, "model, bytes, count or control", "it is NULL");
    require(id < model->model.config.vocab, "id", "it is not below vocab_size");
    const bool named = model->tokenizer.is_control(id);
    const std::string text = named ? model->tokenizer.spelling(id) : model->tokenizer.bytes(id);
    std::copy_n(text.data(), std::min(capacity, text.size()), bytes);
    *count = text.size();
    *control = named;
  });
}

weft_status weft_apply_chat_template_json(const weft_model* model, const char* conversation, uint32_t* ids,
                                          size_t capacity, size_t* count, weft_error* error) {
  return guard(error, [&] {
    require(model && conversation && (ids || capacity == 0) && count, "model, conversation, ids or count",
            "it is NULL");
    const JsonValue json = parse_json(conversation, kConversation, Code::invalid_argument, "conversation");
    const auto is_object = [](const JsonValue& value) { return value.is_object(); };
    const JsonValue *const messages = json.find("messages"), *const found = json.find("tools"), none;
    require(messages && messages->is_array() && std::ranges::all_of(messages->items(), is_object), "conversation",
            "it is not a JSON object with messages");
    const JsonValue& tools = found ? *found : none;
    require(tools.is_null() || tools.is_array(), "conversation", "tools is not an array");
    const ChatTemplate& chat = chat_template_of(*model);
    const std::vector<TextPiece> prompt = chat.render(*messages, tools, true);
    check_tools_are_used(chat, prompt, *messages, tools);
    copy_ids(model->tokenizer.encode(prompt), ids, capacity, count);
  });
}
