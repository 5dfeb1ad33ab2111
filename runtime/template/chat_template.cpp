#include "template/chat_template.h"

#include <algorithm>
#include <map>

#include "base/json_digits.h"
#include "template/jinja_ast.h"

namespace weft {

namespace {

using jinja::Text;
using jinja::Value;

// Steps of a template for a conversation: real ones take some hundreds a message.
constexpr int64_t kBaseBudget = 4000000;
constexpr int64_t kBudgetPerByte = 16, kBudgetPerMessage = 20000;

// Templates build control tokens out of roles ('<|' + message.role + '|>'); a role that could hold one itself is not
// trusted to.
bool is_word(const std::string& role) {
  return std::all_of(role.begin(), role.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Templates of models that see pictures write a content only if it is a list of parts.
Value text_part(const std::string& text) {
  return Value::list({Value::dict({{Value(std::string("type")), Value(std::string("text"))},
                                   {Value(std::string("text")), Value(Text(text, true))}})});
}

Value message_value(const Message& message, bool as_parts) {
  return Value::dict(
      {{Value(std::string("role")), Value(Text(message.role, !is_word(message.role)))},
       {Value(std::string("content")), as_parts ? text_part(message.content) : Value(Text(message.content, true))}});
}

// Strings are tainted.
Value json_value(const JsonValue& json) {
  if (json.is_boolean()) return Value(json.get<bool>());
  if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX})
    return Value(jinja::LongInteger{std::to_string(json.get<uint64_t>())});
  if (const auto digits = long_number(json)) return Value(jinja::LongInteger{std::string(*digits)});
  if (json.is_number_integer()) return Value(json.get<int64_t>());
  if (json.is_number()) return Value(json.get<double>());
  if (json.is_string()) return Value(Text(json.text(), true));
  if (json.is_array()) {
    std::vector<Value> items;
    for (const JsonValue& item : json.items()) items.push_back(json_value(item));
    return Value::list(std::move(items));
  }
  if (!json.is_object()) return Value(jinja::None{});
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [name, value] : json.members()) items.emplace_back(Value(Text(name, true)), json_value(value));
  return Value::dict(std::move(items));
}

Value message_value(const JsonValue& message, bool as_parts) {
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [name, value] : message.members()) {
    if (as_parts && name == "content" && value.is_string()) {
      items.emplace_back(Value(name), text_part(value.text()));
      continue;
    }
    const bool trusted = name == "role" && value.is_string() && is_word(value.text());
    items.emplace_back(Value(name), trusted ? Value(value.text()) : json_value(value));
  }
  return Value::dict(std::move(items));
}

// render(as_parts) is called again with parts if nothing of the messages is in the prompt.
template <class Render>
std::vector<TextPiece> with_contents(const Render& render) {
  const auto has_content = [](const std::vector<TextPiece>& pieces) {
    return std::ranges::any_of(pieces, [](const TextPiece& piece) { return piece.special == Special::plain; });
  };
  std::vector<TextPiece> pieces = render(false);
  if (has_content(pieces)) return pieces;
  try {
    std::vector<TextPiece> of_parts = render(true);
    if (has_content(of_parts)) return of_parts;
  } catch (const Error&) {
    // The template takes no parts.
  }
  return pieces;
}

}  // namespace

struct ChatTemplate::Impl {
  using Variables = std::vector<std::pair<std::string, Value>>;
  // variables: more than all templates get.
  std::vector<TextPiece> render(Value messages, Value tools, bool add_generation_prompt, Variables variables,
                                int64_t budget) const;

  std::string place;
  std::map<std::string, std::string> names;
  jinja::Body body;
};

ChatTemplate::ChatTemplate(const std::string& source, std::map<std::string, std::string> named_tokens,
                           std::string place) {
  auto impl = std::make_shared<Impl>();
  impl->body = jinja::parse(source, place);
  impl->place = std::move(place);
  impl->names = std::move(named_tokens);
  impl_ = std::move(impl);
}

std::vector<TextPiece> ChatTemplate::render(std::span<const Message> messages, bool add_generation_prompt) const {
  int64_t budget = kBaseBudget + kBudgetPerMessage * static_cast<int64_t>(messages.size());
  bool any = false;
  for (const Message& message : messages) {
    budget += kBudgetPerByte * static_cast<int64_t>(message.content.size());
    any |= !message.content.empty();
  }
  const auto render_as = [&](bool as_parts) {
    std::vector<Value> list;
    for (const Message& message : messages) list.push_back(message_value(message, as_parts));
    return impl_->render(Value::list(std::move(list)), jinja::None{}, add_generation_prompt, {}, budget);
  };
  return any ? with_contents(render_as) : render_as(false);
}

std::vector<TextPiece> ChatTemplate::render(const JsonValue& messages, const JsonValue& tools,
                                            bool add_generation_prompt, const JsonValue& variables) const {
  const auto count = static_cast<int64_t>(messages.size() + tools.size());
  const auto bytes = static_cast<int64_t>(messages.dump().size() + tools.dump().size());
  Impl::Variables more;
  if (variables.is_object())
    for (const auto& [name, value] : variables.members()) more.emplace_back(name, json_value(value));
  const auto render_as = [&](bool as_parts) {
    std::vector<Value> list;
    for (const JsonValue& message : messages.items()) list.push_back(message_value(message, as_parts));
    return impl_->render(Value::list(std::move(list)), json_value(tools), add_generation_prompt, more,
                         kBaseBudget + kBudgetPerMessage * count + kBudgetPerByte * bytes);
  };
  const bool any = std::ranges::any_of(messages.items(), [](const JsonValue& message) {
    const JsonValue* content = message.find("content");
    return content != nullptr && content->is_string() && !content->text().empty();
  });
  return any ? with_contents(render_as) : render_as(false);
}

std::vector<TextPiece> ChatTemplate::Impl::render(Value messages, Value tools, bool add_generation_prompt,
                                                  Variables variables, int64_t budget) const {
  constexpr std::string_view kOwn[] = {"messages", "tools", "add_generation_prompt"};
  std::erase_if(variables,
                [&](const auto& variable) { return std::ranges::find(kOwn, variable.first) != std::end(kOwn); });
  variables.emplace_back("messages", std::move(messages));
  variables.emplace_back("add_generation_prompt", Value(add_generation_prompt));
  variables.emplace_back("tools", std::move(tools));
  variables.emplace_back("documents", Value(jinja::None{}));
  for (const auto& [name, spelling] : names) variables.emplace_back(name, Value(spelling));
  const Text text = jinja::interpret(body, std::move(variables), place, budget);

  std::vector<TextPiece> pieces;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.taint.find(text.taint[begin] == 0 ? '\1' : '\0', begin);
    end = std::min(end, text.size());
    const auto special = text.taint[begin] == 0 ? Special::parse : Special::plain;
    pieces.push_back({text.bytes.substr(begin, end - begin), special});
    begin = end;
  }
  return pieces;
}

}  // namespace weft
