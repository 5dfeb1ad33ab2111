#include "template/jinja_value.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"
#include "template/jinja_ast.h"
#include "template/jinja_builtins.h"
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

constexpr std::string_view kListNames[] = {"list",      "tuple",       "tuple",      "range",
                                           "dict_keys", "dict_values", "dict_items", "generator"};

void append_items(Text& out, const List& list, std::string_view open, std::string_view close, Context& context) {
  out.append(open);
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(to_repr(list.items[i], context));
  }
  out.append(close);
}

void append_list(Text& out, const List& list, Context& context) {
  const std::string name(kListNames[static_cast<size_t>(list.kind)]);
  switch (list.kind) {
    case ListKind::list:
      return append_items(out, list, "[", "]", context);
    case ListKind::tuple:
    case ListKind::group:
      return append_items(out, list, "(", list.items.size() == 1 ? ",)" : ")", context);
    case ListKind::range:
      out.append("range(" + std::to_string(list.start) + ", " + std::to_string(list.stop));
      return out.append((list.step == 1 ? "" : ", " + std::to_string(list.step)) + ")");
    case ListKind::keys:
    case ListKind::values:
    case ListKind::items:
      return append_items(out, list, name + "([", "])", context);
    case ListKind::iterator:
      context.unsupported("a generator as text (the filter 'list' makes a list of it)");
  }
}

void append_dict(Text& out, const std::vector<std::pair<Value, Value>>& items, Context& context) {
  out.append("{");
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(to_repr(items[i].first, context));
    out.append(": ");
    out.append(to_repr(items[i].second, context));
  }
  out.append("}");
}

void append_newline(Text& out, const JsonStyle& style, int level, Context& context) {
  if (!style.indent) return;
  out.append("\n");
  for (int i = 0; i < level; ++i) {
    context.spend_bytes(style.indent->size());
    out.append(*style.indent);
  }
}

Text json_key(const Value& key, const JsonStyle& style, Context& context) {
  if (key.text() != nullptr) return json_string(*key.text(), style.ascii, context);
  if (!key.is_number() && !key.is<None>()) context.fail(std::string("JSON has no key of type ") + key.type_name());
  Text out("\"");
  out.append(to_json(key, style, context));
  out.append("\"");
  return out;
}

void append_json(Text& out, const Value& value, const JsonStyle& style, int level, Context& context);

void append_json_dict(Text& out, const Dict& dict, const JsonStyle& style, int level, Context& context) {
  auto items = dict.items;
  if (style.sort_keys) {
    std::stable_sort(items.begin(), items.end(),
                     [&](const auto& a, const auto& b) { return less(a.first, b.first, context); });
  }
  out.append("{");
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(style.item_separator);
    append_newline(out, style, level + 1, context);
    out.append(json_key(items[i].first, style, context));
    out.append(style.key_separator);
    append_json(out, items[i].second, style, level + 1, context);
  }
  if (!items.empty()) append_newline(out, style, level, context);
  out.append("}");
}

void append_json(Text& out, const Value& value, const JsonStyle& style, int level, Context& context) {
  context.spend(1);
  if (value.is<None>()) {
    out.append("null");
  } else if (value.is<bool>()) {
    out.append(value.truthy() ? "true" : "false");
  } else if (value.is<double>() && !std::isfinite(value.real())) {
    out.append(std::isnan(value.real()) ? "NaN" : value.real() < 0 ? "-Infinity" : "Infinity");
  } else if (value.is_number()) {
    out.append(to_text(value, context));
  } else if (const Text* text = value.text()) {
    out.append(json_string(*text, style.ascii, context));
  } else if (value.is_list(ListKind::list) || value.is_tuple()) {
    out.append("[");
    for (size_t i = 0; i < value.list()->items.size(); ++i) {
      if (i > 0) out.append(style.item_separator);
      append_newline(out, style, level + 1, context);
      append_json(out, value.list()->items[i], style, level + 1, context);
    }
    if (!value.list()->items.empty()) append_newline(out, style, level, context);
    out.append("]");
  } else if (const Dict* dict = value.dict()) {
    append_json_dict(out, *dict, style, level, context);
  } else {
    context.fail(std::string("a value of type ") + value.type_name() + " has no JSON");
  }
}

}  // namespace

Value Value::list(List list) {
  list.depth = deepest(list.items);
  Value value;
  value.kind_ = std::make_shared<const List>(std::move(list));
  return value;
}

Value Value::list(std::vector<Value> items) {
  List list;
  list.items = std::move(items);
  return Value::list(std::move(list));
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

double Value::real() const {
  if (long_integer() != nullptr) return parse_double(long_integer()->digits).value_or(HUGE_VAL);
  return is<double>() ? std::get<double>(kind_) : static_cast<double>(integer());
}

Value::Value(Callable value) : kind_(std::make_shared<const Callable>(std::move(value))) {}

bool Value::same(const Value& other) const {
  if (kind_.index() != other.kind_.index()) return false;
  if (list() != nullptr || dict() != nullptr) return list() == other.list() && dict() == other.dict();
  if (is<None>()) return true;
  if (is<bool>() || is<int64_t>()) return integer() == other.integer();
  if (is<double>()) return real() == other.real();
  if (long_integer() != nullptr) return long_integer()->digits == other.long_integer()->digits;
  if (text() != nullptr) return text()->bytes == other.text()->bytes;
  return names() == other.names() && loop() == other.loop() && callable() == other.callable() && !is<Undefined>();
}

bool Value::truthy() const {
  if (is<Undefined>() || is<None>()) return false;
  if (is_number()) return real() != 0;
  if (const Text* t = text()) return t->size() > 0;
  if (const List* l = list()) return l->kind == ListKind::iterator || !l->items.empty();
  if (const Dict* d = dict()) return !d->items.empty();
  return true;
}

const char* Value::type_name() const {
  if (is<Undefined>()) return "undefined";
  if (is<None>()) return "none";
  if (is<bool>()) return "bool";
  if (is<int64_t>()) return "int";
  if (is<double>()) return "float";
  if (long_integer() != nullptr) return "int";
  if (text() != nullptr) return "string";
  if (list() != nullptr) return kListNames[static_cast<size_t>(list()->kind)].data();
  if (dict() != nullptr) return "dict";
  if (names() != nullptr) return "namespace";
  return loop() != nullptr ? "loop" : "function";
}

int Value::depth() const {
  if (callable() != nullptr) return callable()->object.depth() + 1;
  return list() != nullptr ? list()->depth : dict() != nullptr ? dict()->depth : 0;
}

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
  if (static_cast<uint64_t>(std::max<int64_t>(budget_, 0)) < steps) {
    budget_ = -1;
    fail("the chat template does not come to an end");
  }
  budget_ -= static_cast<int64_t>(steps);
  rounds_.next();
}

namespace {

bool equal_lists(const Value& a, const Value& b, Context& context) {
  const auto &x = a.list()->items, &y = b.list()->items;
  const bool keys = a.is_list(ListKind::keys) && b.is_list(ListKind::keys);
  const bool alike = (a.is_tuple() && b.is_tuple()) || (a.list()->kind == b.list()->kind && a.is_sequence()) || keys;
  if (!alike) return a.list() == b.list();
  if (x.size() != y.size()) return false;
  if (keys) return std::all_of(x.begin(), x.end(), [&](const Value& key) { return contains(b, key, context); });
  return std::equal(x.begin(), x.end(), y.begin(),
                    [&](const Value& p, const Value& q) { return equal(p, q, context); });
}

// A whole number's sign and digits.
std::pair<bool, std::string> whole_digits(const Value& value) {
  const std::string text =
      value.long_integer() != nullptr ? value.long_integer()->digits : std::to_string(value.integer());
  const bool negative = text.front() == '-';
  return {negative, text.substr(negative ? 1 : 0)};
}

// -1, 0 or 1, as a is less than b, equal or more; one of them is a LongInteger, the other a number. 2: a NaN.
int compare_long(const Value& a, const Value& b) {
  if (a.is<double>() || b.is<double>()) {
    const double x = a.real(), y = b.real();
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
  }
  const auto [a_negative, a_digits] = whole_digits(a);
  const auto [b_negative, b_digits] = whole_digits(b);
  if (a_negative != b_negative) return a_negative ? -1 : 1;
  int order = a_digits.size() != b_digits.size() ? (a_digits.size() < b_digits.size() ? -1 : 1)
                                                 : std::clamp(a_digits.compare(b_digits), -1, 1);
  return a_negative ? -order : order;
}

// One is a LongInteger, both are numbers.
bool has_long(const Value& a, const Value& b) {
  return a.is_number() && b.is_number() && (a.long_integer() != nullptr || b.long_integer() != nullptr);
}

bool less_lists(const List& a, const List& b, Context& context) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i) {
    if (!equal(a.items[i], b.items[i], context)) return less(a.items[i], b.items[i], context);
  }
  return a.items.size() < b.items.size();
}

}  // namespace

bool equal(const Value& a, const Value& b, Context& context) {
  context.spend(1);
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  if (has_long(a, b)) return compare_long(a, b) == 0;
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.text() != nullptr && b.text() != nullptr) {
    context.spend_bytes(std::min(a.text()->size(), b.text()->size()));
    return a.text()->bytes == b.text()->bytes;
  }
  if (a.list() != nullptr && b.list() != nullptr) return equal_lists(a, b, context);
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
  if (has_long(a, b)) return compare_long(a, b) == -1;
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.text() != nullptr && b.text() != nullptr) {
    context.spend_bytes(std::min(a.text()->size(), b.text()->size()));
    return a.text()->bytes < b.text()->bytes;
  }
  if ((a.is_list(ListKind::list) && b.is_list(ListKind::list)) || (a.is_tuple() && b.is_tuple()))
    return less_lists(*a.list(), *b.list(), context);
  context.fail(std::string("a ") + a.type_name() + " and a " + b.type_name() + " have no order");
}

bool less_or_equal(const Value& a, const Value& b, Context& context) {
  if (!a.is_number() || !b.is_number()) return !less(b, a, context);
  context.spend(1);
  if (has_long(a, b)) return compare_long(a, b) < 1;
  return a.is_integral() && b.is_integral() ? a.integer() <= b.integer() : a.real() <= b.real();
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
  if (value.long_integer() != nullptr) return Text(value.long_integer()->digits);
  Text out;
  if (const Text* text = value.text()) {
    if (!text->markup) return python_repr(*text, context);
    out.append("Markup(");
    out.append(python_repr(*text, context));
    out.append(")");
    return out;
  }
  if (const List* list = value.list()) {
    append_list(out, *list, context);
  } else if (const Dict* dict = value.dict()) {
    append_dict(out, dict->items, context);
  } else if (const Namespace* names = value.names(); names != nullptr && names->kind == Namespace::Kind::names) {
    const Context::Level level(context);  // it may hold itself
    std::vector<std::pair<Value, Value>> members;
    for (const auto& [name, member] : names->members) members.emplace_back(Value(name), member);
    out.append("<Namespace ");
    append_dict(out, members, context);
    out.append(">");
  } else if (const Loop* loop = value.loop()) {
    out.append("<LoopContext " + std::to_string(loop->index + 1) + "/" + std::to_string(loop->items->size()) + ">");
  } else if (const Callable* callable = value.callable(); callable != nullptr && callable->macro != nullptr) {
    const bool named = callable->macro->kind == Statement::Kind::macro;
    out.append(named ? "<Macro '" + callable->macro->name + "'>" : "<Macro anonymous>");
  } else {
    context.unsupported(std::string("a ") + value.type_name() + " as text");
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
    if (list->kind != ListKind::iterator) return list->items;
    const size_t from = std::exchange(list->taken, list->items.size());
    if (list->failure) std::rethrow_exception(list->failure);
    return {list->items.begin() + static_cast<std::ptrdiff_t>(from), list->items.end()};
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
    Text character;
    character.append(*text, at, size);
    out.emplace_back(std::move(character));
    at += size;
  }
  return out;
}

Value make_list(List list, Context& context) {
  context.spend(1 + list.items.size());
  Value value = Value::list(std::move(list));
  if (value.depth() > kMaxDepth) context.fail("lists and dicts nest more than " + std::to_string(kMaxDepth) + " deep");
  return value;
}

Value make_list(std::vector<Value> items, Context& context, ListKind kind) {
  List list;
  list.items = std::move(items);
  list.kind = kind;
  return make_list(std::move(list), context);
}

void check_hashable(const Value& value, Context& context) {
  if (value.is_tuple()) {
    for (const Value& item : value.list()->items) check_hashable(item, context);
  } else if (value.dict() != nullptr || value.is_list(ListKind::list, ListKind::keys, ListKind::items)) {
    context.fail(std::string("a ") + value.type_name() + " cannot be a dict's key");
  }
}

Value make_dict(std::vector<std::pair<Value, Value>> items, Context& context) {
  context.spend(1 + items.size());
  std::vector<std::pair<Value, Value>> unique;  // a later value takes its key's place
  for (auto& item : items) {
    check_hashable(item.first, context);
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
