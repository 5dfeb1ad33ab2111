#include "template/chat_template.h"

#include <algorithm>
#include <map>

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

Value message_value(const Message& message) {
  return Value::dict({{Value(std::string("role")), Value(Text(message.role, !is_word(message.role)))},
                      {Value(std::string("content")), Value(Text(message.content, true))}});
}

}  // namespace

struct ChatTemplate::Impl {
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
  std::vector<Value> list;
  int64_t budget = kBaseBudget + kBudgetPerMessage * static_cast<int64_t>(messages.size());
  for (const Message& message : messages) {
    list.push_back(message_value(message));
    budget += kBudgetPerByte * static_cast<int64_t>(message.content.size());
  }
  std::vector<std::pair<std::string, Value>> variables;
  variables.emplace_back("messages", Value::list(std::move(list)));
  variables.emplace_back("add_generation_prompt", Value(add_generation_prompt));
  variables.emplace_back("tools", Value(jinja::None{}));
  variables.emplace_back("documents", Value(jinja::None{}));
  for (const auto& [name, spelling] : impl_->names) variables.emplace_back(name, Value(spelling));
  const Text text = jinja::interpret(impl_->body, std::move(variables), impl_->place, budget);

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
