// The C API: tokens one by one, and conversations with tools.
#include "weft/text.h"

#include <algorithm>

#include "base/json_digits.h"
#include "base/wanted.h"
#include "capi/handles.h"
#include "chat/messages.h"
#include "chat/notations.h"
#include "weft/reasoning.h"

using namespace weft;
using namespace weft::capi;

namespace {

// Deeper values would overflow the stack of code that recurses into them.
constexpr JsonLimits kConversation = {uint64_t{1} << 28, uint64_t{1} << 24, 100};
constexpr const char* kXmlTools = "xml_tools";

// True if a made-up conversation gives the same prompt. A template may refuse it, and then it gives none.
template <class Render>
bool gives(const std::vector<TextPiece>& prompt, const Render& render) {
  try {
    return std::ranges::equal(prompt, render(),
                              [](const TextPiece& x, const TextPiece& y) { return x.text == y.text; });
  } catch (const Error&) {
    return false;
  }
}

// Throws if the prompt is the same without the tools, or without the tool_calls.
void check_tools_are_used(const ChatTemplate& chat, const std::vector<TextPiece>& prompt, const JsonValue& messages,
                          const JsonValue& tools, const JsonValue& variables) {
  const auto refuse = [](const char* place) {
    throw Error(Code::unsupported, "the model's chat template does not know tools", place, "use a model that does");
  };
  JsonValue others = variables;
  others.erase(kXmlTools);
  if (!tools.empty() && gives(prompt, [&] { return chat.render(messages, nullptr, true, others); })) refuse("tools");
  JsonValue without = messages;
  bool calls = false;
  for (JsonValue& message : without.items()) calls = message.erase("tool_calls") || calls;
  if (calls && gives(prompt, [&] { return chat.render(without, tools, true, variables); })) refuse("messages");
}

// The variables of templates that switch reasoning.
JsonValue with_thinking(JsonValue variables, bool think) {
  variables["enable_thinking"] = think;
  variables["thinking"] = think;
  return variables;
}

// The prompt ends within the model's reasoning, or not.
void begin_or_close(std::vector<TextPiece>& prompt, bool think, std::string_view chat_template) {
  const ReasoningMarks* const marks = reasoning_marks(chat_template);
  if (!marks) return;
  if (prompt.empty() || prompt.back().special != Special::parse) prompt.push_back({"", Special::parse});
  std::string& end = prompt.back().text;
  const std::string part = begun_part(end, chat_template);
  const bool begun = part == marks->open, headed = !marks->answer.empty();
  if (headed && part.empty()) return;  // no header is due
  if (begun != think) {
    end += think ? opening(*marks) : closing(*marks);
  } else if (headed && !think) {
    end += header(*marks);
  }
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

JsonValue capi::parse_conversation(const char* text) {
  JsonValue conversation = parse_json_digits(text, kConversation, Code::invalid_argument, "conversation");
  const auto is_object = [](const JsonValue& value) { return value.is_object(); };
  const JsonValue *const messages = conversation.find("messages"), *const tools = conversation.find("tools"),
                         *const variables = conversation.find("variables"), *const think = conversation.find("think");
  require(messages && messages->is_array() && std::ranges::all_of(messages->items(), is_object), "conversation",
          "it is not a JSON object with messages");
  require(!tools || tools->is_null() || tools->is_array(), "conversation", "tools is not an array");
  require(!variables || variables->is_null() || variables->is_object(), "conversation", "variables is not an object");
  require(!think || think->is_null() || think->is_boolean(), "conversation", "think is not true or false");
  return conversation;
}

std::vector<uint32_t> capi::chat_ids(const weft_model& model, const JsonValue& conversation) {
  const JsonValue *const found = conversation.find("tools"), *const more = conversation.find("variables"),
                         *const think = conversation.find("think");
  const JsonValue tools = found ? *found : JsonValue();
  const bool for_tools = !tools.empty() && model.tool_template;
  const ChatTemplate& chat = for_tools ? *model.tool_template : chat_template_of(model);
  const std::string& source = for_tools ? model.tokenizer.tool_template() : model.tokenizer.chat_template();
  JsonValue variables = more && !more->is_null() ? *more : JsonValue::object();
  if (!tools.is_null() && source.find(kXmlTools) != std::string::npos) variables[kXmlTools] = tools;
  const bool switched = think && think->is_boolean();
  if (switched) variables = with_thinking(std::move(variables), think->get<bool>());
  JsonValue messages;
  std::vector<TextPiece> prompt;
  const auto render = [&](Arguments form) {
    messages = messages_for(source, conversation["messages"], form);
    prompt = chat.render(messages, tools, true, variables);
  };
  try {
    render(Arguments::objects);
  } catch (const Error& error) {
    // Some templates add arguments to a text (DeepSeek R1).
    if (error.code() != Code::bad_file || !has_calls(conversation["messages"])) throw;
    render(Arguments::texts);
  }
  check_tools_are_used(chat, prompt, messages, tools, variables);
  if (switched) begin_or_close(prompt, think->get<bool>(), source);
  return model.tokenizer.encode(prompt);
}

weft_status weft_apply_chat_template_json(const weft_model* model, const char* conversation, uint32_t* ids,
                                          size_t capacity, size_t* count, weft_error* error) {
  return guard(error, [&] {
    require(model && conversation && (ids || capacity == 0) && count, "model, conversation, ids or count",
            "it is NULL");
    copy_ids(chat_ids(*model, parse_conversation(conversation)), ids, capacity, count);
  });
}

weft_status weft_apply_chat_template_thinking(const weft_model* model, const weft_message* messages,
                                              size_t message_count, int think, uint32_t* ids, size_t capacity,
                                              size_t* count, weft_error* error) {
  return guard(error, [&] {
    require(model && (messages || message_count == 0) && (ids || capacity == 0) && count,
            "model, messages, ids or count", "it is NULL");
    JsonValue list = JsonValue::array();
    for (const weft_message& message : std::span(messages, message_count)) {
      require(message.role && message.content, "messages", "a role or content is NULL");
      list.push_back({{"role", message.role}, {"content", message.content}});
    }
    const bool on = think != 0;
    std::vector<TextPiece> prompt =
        chat_template_of(*model).render(list, nullptr, true, with_thinking(JsonValue::object(), on));
    begin_or_close(prompt, on, model->tokenizer.chat_template());
    copy_ids(model->tokenizer.encode(prompt), ids, capacity, count);
  });
}

void weft_set_wanted(int (*wanted)(void* user), void* user) { set_wanted(wanted, user); }
