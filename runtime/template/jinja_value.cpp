#include "template/jinja_value.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "template/jinja_lexer.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

constexpr int kMaxDepth = 64;  // of lists within lists

int deepest(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}

void append_list(Text& out, const List& list, Context& context) {
  out.append(list.tuple ? "(" : "[");
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(to_repr(list.items[i], context));
  }
  if (list.tuple && list.items.size() == 1) out.append(",");
  out.append(list.tuple ? ")" : "]");
}

void append_newline(Text& out, const JsonStyle& style, int level) {
  if (style.indent >= 0) out.append("\n" + std::string(static_cast<size_t>(style.indent * level), ' '));
}

void append_json(Text& out, const Value& value, const JsonStyle& style, int level, Context& context) {
  context.spend(1);
  if (value.is<None>()) {
    out.append("null");
  } else if (value.is<bool>()) {
    out.append(value.truthy() ? "true" : "false");
  } else if (value.is_number()) {
    out.append(to_text(value, context));
  } else if (const Text* text = value.text()) {
    out.append(json_string(*text, style.ascii, context));
  } else if (const List* list = value.list()) {
    out.append("[");
    for (size_t i = 0; i < list->items.size(); ++i) {
      if (i > 0) out.append(style.item_separator);
      append_newline(out, style, level + 1);
      append_json(out, list->items[i], style, level + 1, context);
    }
    if (!list->items.empty()) append_newline(out, style, level);
    out.append("]");
  } else if (const Dict* dict = value.dict()) {
    auto items = dict->items;
    if (style.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
        return a.first.text() != nullptr && b.first.text() != nullptr && a.first.text()->bytes < b.first.text()->bytes;
      });
    }
    out.append("{");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.append(style.item_separator);
      append_newline(out, style, level + 1);
      out.append(json_string(to_text(items[i].first, context), style.ascii, context));
      out.append(style.key_separator);
      append_json(out, items[i].second, style, level + 1, context);
    }
    if (!items.empty()) append_newline(out, style, level);
    out.append("}");
  } else {
    context.fail(std::string("a value of type ") + value.type_name() + " has no JSON");
  }
  context.spend_bytes(static_cast<size_t>(std::max(style.indent, 0) * level));
}

}  // namespace

Value Value::list(std::vector<Value> items, bool tuple) {
  auto list = std::make_shared<List>();
  list->depth = deepest(items);
  list->items = std::move(items);
  list->tuple = tuple;
  Value value;
  value.kind_ = std::shared_ptr<const List>(std::move(list));
  return value;
}

Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  auto dict = std::make_shared<Dict>();
  for (const auto& item : items) dict->depth = std::max({dict->depth, 1 + item.first.depth(), 1 + item.second.depth()});
  dict->items = std::move(items);
  Value value;
  value.kind_ = std::shared_ptr<const Dict>(std::move(dict));
  return value;
}

int64_t Value::integer() const {
  if (is<bool>()) return std::get<bool>(kind_) ? 1 : 0;
  return std::get<int64_t>(kind_);
}

double Value::real() const { return is<double>() ? std::get<double>(kind_) : static_cast<double>(integer()); }

bool Value::truthy() const {
  if (is<Undefined>() || is<None>()) return false;
  if (is_number()) return real() != 0;
  if (const Text* t = text()) return t->size() > 0;
  if (const List* l = list()) return !l->items.empty();
  if (const Dict* d = dict()) return !d->items.empty();
  return true;
}

const char* Value::type_name() const {
  if (is<Undefined>()) return "undefined";
  if (is<None>()) return "none";
  if (is<bool>()) return "bool";
  if (is<int64_t>()) return "int";
  if (is<double>()) return "float";
  if (text() != nullptr) return "string";
  if (list() != nullptr) return list()->tuple ? "tuple" : "list";
  if (dict() != nullptr) return "dict";
  if (names() != nullptr) return "namespace";
  return loop() != nullptr ? "loop" : "function";
}

int Value::depth() const { return list() != nullptr ? list()->depth : dict() != nullptr ? dict()->depth : 0; }

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name.text() != nullptr && name.text()->bytes == key) return &value;
  }
  return nullptr;
}

void Context::fail(const std::string& sentence) const {
  throw Error(Code::bad_file, sentence, template_place(place_, line));
}

void Context::unsupported(const std::string& what) const {
  throw Error(Code::unsupported, "not supported yet: " + what, template_place(place_, line));
}

void Context::spend(size_t steps) {
  if (static_cast<uint64_t>(std::max<int64_t>(budget_, 0)) < steps) fail("the chat template does not come to an end");
  budget_ -= static_cast<int64_t>(steps);
}

bool equal(const Value& a, const Value& b, Context& context) {
  context.spend(1);
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.text() != nullptr && b.text() != nullptr) {
    context.spend_bytes(std::min(a.text()->size(), b.text()->size()));
    return a.text()->bytes == b.text()->bytes;
  }
  if (a.list() != nullptr && b.list() != nullptr) {
    const auto &x = a.list()->items, &y = b.list()->items;
    if (x.size() != y.size() || a.list()->tuple != b.list()->tuple) return false;
    return std::equal(x.begin(), x.end(), y.begin(),
                      [&](const Value& p, const Value& q) { return equal(p, q, context); });
  }
  if (a.dict() != nullptr && b.dict() != nullptr) {
    if (a.dict()->items.size() != b.dict()->items.size()) return false;
    for (const auto& [key, value] : a.dict()->items) {
      const auto& other = b.dict()->items;
      const auto same = [&, &wanted = key](const auto& item) { return equal(item.first, wanted, context); };
      const auto it = std::find_if(other.begin(), other.end(), same);
      if (it == other.end() || !equal(value, it->second, context)) return false;
    }
    return true;
  }
  if (a.names() != nullptr || b.names() != nullptr) return a.names() == b.names();
  if (a.loop() != nullptr || b.loop() != nullptr) return a.loop() == b.loop();
  if (a.callable() != nullptr || b.callable() != nullptr) return a.callable() == b.callable();
  return (a.is<None>() && b.is<None>()) || (a.is<Undefined>() && b.is<Undefined>());
}

bool less(const Value& a, const Value& b, Context& context) {
  context.spend(1);
  if (a.is_integral() && b.is_integral()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.text() != nullptr && b.text() != nullptr) {
    context.spend_bytes(std::min(a.text()->size(), b.text()->size()));
    return a.text()->bytes < b.text()->bytes;
  }
  context.fail(std::string("a ") + a.type_name() + " and a " + b.type_name() + " have no order");
}

Text to_text(const Value& value, Context& context) {
  if (value.is<Undefined>()) return {};
  if (const Text* text = value.text()) {
    context.spend_bytes(text->size());
    return *text;
  }
  return to_repr(value, context);
}

Text to_repr(const Value& value, Context& context) {
  context.spend(1);
  if (value.is<Undefined>()) return Text("Undefined");
  if (value.is<None>()) return Text("None");
  if (value.is<bool>()) return Text(value.truthy() ? "True" : "False");
  if (value.is<int64_t>()) return Text(std::to_string(value.integer()));
  if (value.is<double>()) return Text(python_float(value.real()));
  if (const Text* text = value.text()) return python_repr(*text, context);
  Text out;
  if (const List* list = value.list()) {
    append_list(out, *list, context);
  } else if (const Dict* dict = value.dict()) {
    out.append("{");
    for (size_t i = 0; i < dict->items.size(); ++i) {
      if (i > 0) out.append(", ");
      out.append(to_repr(dict->items[i].first, context));
      out.append(": ");
      out.append(to_repr(dict->items[i].second, context));
    }
    out.append("}");
  } else {
    context.fail(std::string("a ") + value.type_name() + " cannot be written as text");
  }
  context.spend_bytes(out.size());  // once for every level it is copied through
  return out;
}

Text to_json(const Value& value, const JsonStyle& style, Context& context) {
  Text out;
  append_json(out, value, style, 0, context);
  return out;
}

std::vector<Value> iterate(const Value& value, Context& context) {
  if (value.is<Undefined>()) return {};
  if (const List* list = value.list()) {
    context.spend(list->items.size());
    return list->items;
  }
  std::vector<Value> out;
  if (const Dict* dict = value.dict()) {
    context.spend(dict->items.size());
    for (const auto& item : dict->items) out.push_back(item.first);
    return out;
  }
  const Text* text = value.text();
  if (text == nullptr) context.fail(std::string("a ") + value.type_name() + " cannot be gone through");
  context.spend(text->size());
  for (size_t at = 0; at < text->size();) {
    const size_t size = first_utf8(std::string_view(text->bytes).substr(at)).size;
    out.push_back(text->substr(at, size));
    at += size;
  }
  return out;
}

Value make_list(std::vector<Value> items, Context& context, bool tuple) {
  context.spend(1 + items.size());
  Value value = Value::list(std::move(items), tuple);
  if (value.depth() > kMaxDepth) context.fail("lists and dicts nest more than " + std::to_string(kMaxDepth) + " deep");
  return value;
}

Value make_dict(std::vector<std::pair<Value, Value>> items, Context& context) {
  context.spend(1 + items.size());
  std::vector<std::pair<Value, Value>> unique;  // a later value takes its key's place
  for (auto& item : items) {
    const auto same = [&](const auto& other) { return equal(other.first, item.first, context); };
    const auto it = std::find_if(unique.begin(), unique.end(), same);
    if (it == unique.end()) {
      unique.push_back(std::move(item));
    } else {
      it->second = std::move(item.second);
    }
  }
  Value value = Value::dict(std::move(unique));
  if (value.depth() > kMaxDepth) context.fail("lists and dicts nest more than " + std::to_string(kMaxDepth) + " deep");
  return value;
}

}  // namespace weft::jinja
