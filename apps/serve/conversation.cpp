#include "conversation.h"

#include <weft/text.h>

#include <algorithm>

#include "../weft/common.h"
#include "answers.h"
#include "chat/forced.h"
#include "chat/notations.h"
#include "tools.h"

namespace weft::serve {
namespace {

// A turn that makes no sense to a template as it is, in a template's own terms.
constexpr const char* kToolsIntroduction =
    "You can call these functions to answer. They are described by JSON, one a line:\n";
constexpr const char* kCallsIntroduction =
    "To call one, write\n<tool_call>{\"name\": \"FUNCTION\", \"arguments\": {\"NAME\": VALUE}}</tool_call>\n"
    "and wait for the result. If no call is needed, answer as usual.";

std::string text_in(const Json& message) { return message.value("content", std::string()); }

bool has_pictures(const Json& messages) {
  return std::ranges::any_of(messages, [](const Json& message) { return message["content"].is_array(); });
}

void append_line(Json& message, const std::string& text) {
  const std::string before = text_in(message);
  message["content"] = before.empty() ? text : before + "\n" + text;
}

bool has_calls(const Json& messages) {
  return std::ranges::any_of(
      messages, [](const Json& message) { return message.contains("tool_calls") || message["role"] == "tool"; });
}

// Ids as Mistral's templates want them: nine letters or digits. The same id stays the same.
Json with_short_ids(Json messages) {
  std::map<std::string, std::string> names;
  const auto change = [&](Json& id) {
    if (!id.is_string()) return;
    std::string& name = names[id.get<std::string>()];
    if (name.empty()) name = call_id();
    id = name;
  };
  for (Json& message : messages) {
    if (message.contains("tool_call_id")) change(message["tool_call_id"]);
    if (message.contains("tool_calls"))
      for (Json& call : message["tool_calls"]) change(call["id"]);
  }
  return messages;
}

// Ids as Kimi was taught them: its templates show no other name of the function.
Json with_counted_ids(Json messages) {
  std::map<std::string, std::string> names;  // of the last call with an id
  std::size_t count = 0;
  for (Json& message : messages) {
    if (message.contains("tool_calls")) {
      for (Json& call : message["tool_calls"]) {
        const std::string function = call["function"]["name"].get<std::string>();
        std::string& name = names[call["id"].get<std::string>()];
        call["id"] = name = "functions." + function + ":" + std::to_string(count++);
      }
    }
    if (!message.contains("tool_call_id")) continue;
    const auto called = names.find(message["tool_call_id"].get<std::string>());
    if (called != names.end()) message["tool_call_id"] = called->second;
  }
  return messages;
}

std::string described(const Json& tools) {
  std::string text = kToolsIntroduction;
  for (const Json& tool : tools) text += bytes_of(tool["function"]) + "\n";
  return text + kCallsIntroduction;
}

void add_system(Json& messages, const std::string& text) {
  if (!messages.empty() && messages.front()["role"] == "system") {
    append_line(messages.front(), "\n" + text);
  } else {
    messages.insert(messages.begin(), Json({{"role", "system"}, {"content", text}}));
  }
}

// Templates that know no system message get it before the first message of the user.
void fold_system(Json& messages) {
  if (messages.size() < 2 || messages.front()["role"] != "system" || messages[1]["role"] != "user") return;
  const std::string system = text_in(messages.front()), first = text_in(messages[1]);
  messages[1]["content"] = system + "\n\n" + first;
  messages.erase(messages.begin());
}

}  // namespace

Json without_tools(const Json& messages, const Json& tools, bool folded) {
  Json plain = Json::array();
  for (Json message : messages) {
    const bool result = message["role"] == "tool";
    if (result)
      message = {{"role", "user"}, {"content", "<tool_response>\n" + text_in(message) + "\n</tool_response>"}};
    if (message.contains("tool_calls")) {
      for (const Json& call : message["tool_calls"])
        append_line(message, "<tool_call>{\"name\": " + bytes_of(call["function"]["name"]) + ", \"arguments\": " +
                                 call["function"]["arguments"].get<std::string>() + "}</tool_call>");
      message.erase("tool_calls");
    }
    // Turns alternate: results that follow each other, and the user's next words, are one.
    const bool joins = !plain.empty() && plain.back()["role"] == message["role"] && message["role"] == "user" &&
                       (result || text_in(plain.back()).ends_with("</tool_response>"));
    if (joins) {
      append_line(plain.back(), text_in(message));
    } else {
      plain.push_back(std::move(message));
    }
  }
  if (!tools.empty()) add_system(plain, described(tools));
  if (folded) fold_system(plain);
  return plain;
}

Conversations::Conversations(const api::Model& model) : model_(model) {
  const Json description = Json::parse(model.describe());
  chat_template_ = description.value("chat_template", std::string());
  tool_template_ = description.value("tool_template", std::string());
  auto named = std::make_shared<std::map<std::uint32_t, std::string>>();
  for (const std::string& mark : weft::marks()) {
    const std::vector<std::uint32_t> ids = model.tokenize(mark, false, true);
    if (ids.size() == 1 && cli::token_bytes(model, ids[0]).control) named->emplace(ids[0], mark);
  }
  marks_ = std::move(named);
}

std::vector<std::uint32_t> Conversations::ids(const Json& messages, const CompletionRequest& request,
                                              bool tools) const {
  const std::string conversation =
      bytes_of({{"messages", messages}, {"tools", tools ? request.tools : Json()}, {"variables", request.variables}});
  return api::detail::ids(
      conversation.size() + 256, [&](std::uint32_t* out, std::size_t capacity, std::size_t* count, weft_error* error) {
        return weft_apply_chat_template_json(model_.get(), conversation.c_str(), out, capacity, count, error);
      });
}

namespace {

// The template refuses the conversation, or fails with it.
bool cannot_render(const api::Failure& error) {
  return error.status() == WEFT_INVALID_ARGUMENT || error.status() == WEFT_UNSUPPORTED ||
         error.status() == WEFT_BAD_FILE;
}

}  // namespace

std::vector<std::uint32_t> Conversations::render(const CompletionRequest& request) const {
  const bool calls = has_calls(request.messages);
  Json counted;
  if (calls && chat_template_.find("<|tool_call_argument_begin|>") != std::string::npos)
    counted = with_counted_ids(request.messages);
  const Json& messages = counted.is_null() ? request.messages : counted;
  try {
    return ids(messages, request, true);
  } catch (const api::Failure& error) {
    const bool refused = cannot_render(error);
    const bool other_form = !chat_template_.empty() && (calls || !request.tools.empty()) && !has_pictures(messages);
    if (!refused || !other_form) throw;
  }
  const auto forms = {+[](const CompletionRequest& asked) { return with_short_ids(asked.messages); },
                      +[](const CompletionRequest& asked) { return without_tools(asked.messages, asked.tools, false); },
                      +[](const CompletionRequest& asked) { return without_tools(asked.messages, asked.tools, true); }};
  for (const auto form : forms) {
    try {
      return ids(form(request), request, form == *forms.begin());
    } catch (const api::Failure& error) {
      if (!cannot_render(error)) throw;
    }
  }
  return ids(messages, request, true);  // the error of the conversation as it is
}

// The mark of a part of the answer that the prompt ends with.
std::string Conversations::begun(const std::vector<std::uint32_t>& prompt) const {
  constexpr std::size_t kTail = 64;  // tokens: a mark may be as many characters
  std::string tail;
  for (std::size_t i = prompt.size() - std::min(prompt.size(), kTail); i < prompt.size(); ++i)
    tail += cli::token_bytes(model_, prompt[i]).bytes;
  return begun_part(tail, chat_template_);
}

// More of the prompt, with the names of control tokens.
void Conversations::append(CompletionRequest& request, const std::string& text) const {
  const std::vector<std::uint32_t> more = model_.tokenize(text, false, true);
  request.task.prompt.insert(request.task.prompt.end(), more.begin(), more.end());
}

// True if the model begins to reason by itself, according to its template.
bool Conversations::reasons(const CompletionRequest& request) const {
  constexpr const char* kSwitch = "enable_thinking";
  if (chat_template_.find(kSwitch) == std::string::npos) return false;
  if (const auto given = request.variables.find(kSwitch); given != request.variables.end() && given->is_boolean())
    return given->get<bool>();
  CompletionRequest without = request;
  without.variables[kSwitch] = false;
  try {
    return render(without) != request.task.prompt;
  } catch (const api::Failure&) {
    return false;
  }
}

// A grammar leaves no room for the headers of channels either.
void Conversations::begin_channel(const ReasoningMarks& marks, CompletionRequest& request) const {
  Thinking& thinking = request.task.thinking;
  std::string& begun = request.reader.begun;
  if (begun.empty()) return;  // the prompt does not end where a header is due
  const auto asked = request.variables.find("enable_thinking");
  const bool off = asked != request.variables.end() && asked->is_boolean() && !asked->get<bool>();
  if (!thinking.begun) {
    const std::string_view more = off ? header(marks) : marks.open;
    append(request, std::string(more));
    begun += more;
  }
  thinking.begun = thinking.begun || !off;
  if (!thinking.begun) return;
  thinking.closing = marks.close;
  thinking.after = marks.answer;
}

// Before a grammar, which leaves no room for it, reasoning must have begun.
void Conversations::begin_reasoning(CompletionRequest& request) const {
  const ReasoningMarks* const marks = reasoning_marks(chat_template_);
  if (!marks) return;
  Thinking& thinking = request.task.thinking;
  thinking.open = marks->open;
  thinking.close = marks->close;
  thinking.closing = closing(*marks);
  thinking.begun = request.reader.begun == marks->open;
  const bool forced = request.tool_mode == ToolMode::forced,
             grammar = forced || request.task.grammar_kind != WEFT_GRAMMAR_NONE;
  if (!marks->answer.empty()) {
    if (grammar && !forced) begin_channel(*marks, request);
    return;
  }
  if (thinking.begun || !grammar || !reasons(request)) return;
  request.reader.begun = opening(*marks);
  append(request, request.reader.begun);
  thinking.begun = true;
}

// The call is forced in the notation of the model's template.
void Conversations::force_call(CompletionRequest& request) const {
  ForcedCall call = forced_call(request.reader.tools, tool_template_.empty() ? chat_template_ : tool_template_);
  Task& task = request.task;
  task.grammar_kind = WEFT_GRAMMAR_GBNF;
  task.grammar = std::move(call.grammar);
  task.grammar_field = "tools";
  if (task.thinking.begun) {
    task.thinking.after = call.begun;
  } else {
    append(request, call.begun);
    request.reader.begun += call.begun;
  }
}

void Conversations::prepare(CompletionRequest& request) const {
  request.task.prompt = render(request);
  request.task.marks = marks_;
  request.reader =
      reader_options(request, request.tools.empty() || tool_template_.empty() ? chat_template_ : tool_template_);
  request.reader.begun = begun(request.task.prompt);
  begin_reasoning(request);
  if (request.tool_mode == ToolMode::forced) force_call(request);
}

}  // namespace weft::serve
