// Operators and access to members.
#include <algorithm>
#include <cmath>
#include <limits>

#include "template/jinja_builtins.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

[[noreturn]] void mismatch(const std::string& op, const Value& left, const Value& right, Context& context) {
  if (left.is<Undefined>()) context.fail("'" + left.undefined_name() + "' is undefined");
  if (right.is<Undefined>()) context.fail("'" + right.undefined_name() + "' is undefined");
  context.fail(std::string("a ") + left.type_name() + " and a " + right.type_name() + " cannot be combined by '" + op +
               "'");
}

void check(bool overflow, Context& context) {
  if (overflow) context.fail("a whole number grows out of 64 bits");
}

double power(double a, double b, Context& context) {
  if (a == 0 && b < 0) context.fail("a division by zero");
  const double out = std::pow(a, b);
  if (std::isnan(out) && !std::isnan(a) && !std::isnan(b)) context.unsupported("a power that is a complex number");
  if (std::isinf(out) && std::isfinite(a) && std::isfinite(b)) context.fail("a power is too large for a number");
  return out;
}

Value integer_arithmetic(const std::string& op, int64_t a, int64_t b, Context& context) {
  int64_t out = 0;
  if (op == "+") {
    check(__builtin_add_overflow(a, b, &out), context);
    return out;
  }
  if (op == "-") {
    check(__builtin_sub_overflow(a, b, &out), context);
    return out;
  }
  if (op == "*") {
    check(__builtin_mul_overflow(a, b, &out), context);
    return out;
  }
  if (op == "**") {
    if (b < 0) return power(static_cast<double>(a), static_cast<double>(b), context);
    out = 1;
    for (int64_t i = 0; i < b; ++i) {
      context.spend(1);
      check(__builtin_mul_overflow(out, a, &out), context);
    }
    return out;
  }
  if (b == 0) context.fail("a division by zero");
  if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (a == std::numeric_limits<int64_t>::min() && b == -1) check(true, context);
  // Python rounds down, and a remainder has the sign of what it divides by.
  const int64_t quotient = a / b, rest = a % b;
  const bool down = rest != 0 && (rest < 0) != (b < 0);
  return op == "//" ? quotient - (down ? 1 : 0) : rest + (down ? b : 0);
}

Value real_arithmetic(const std::string& op, double a, double b, Context& context) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return power(a, b, context);
  if (b == 0) context.fail("a division by zero");
  if (op == "/") return a / b;
  // The remainder has the sign of what it divides by, and the quotient fits it.
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == "%") return rest;
  return quotient == 0 ? std::copysign(0.0, a / b) : std::nearbyint(quotient);
}

Value repeat_list(const List& list, int64_t count, Context& context) {
  std::vector<Value> items;
  for (int64_t i = 0; i < count && !list.items.empty(); ++i) {
    context.spend(list.items.size());
    items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return make_list(std::move(items), context, list.kind == ListKind::group ? ListKind::tuple : list.kind);
}

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto& items = *loop.items;
  const auto index = static_cast<int64_t>(loop.index), size = static_cast<int64_t>(items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return int64_t{loop.depth};
  if (name == "depth0") return int64_t{loop.depth - 1};
  if (name == "previtem" && index > 0) return items[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return items[loop.index + 1];
  return Undefined{"loop." + name};
}

// Position among `size` items of an index counted from either end; `size` if outside.
size_t position(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  return index < 0 || index >= static_cast<int64_t>(size) ? size : static_cast<size_t>(index);
}

}  // namespace

void refuse_long(const Value& left, const Value& right, Context& context) {
  if (left.long_integer() != nullptr || right.long_integer() != nullptr)
    context.unsupported("arithmetic with a whole number of more than 64 bits");
}

Value arithmetic(const std::string& op, const Value& left, const Value& right, Context& context) {
  context.spend(1);
  if (op == "~") {
    Text out = to_text(left, context);
    out.append(to_text(right, context));
    out.markup = false;
    return out;
  }
  if (left.is_integral() && right.is_integral())
    return integer_arithmetic(op, left.integer(), right.integer(), context);
  refuse_long(left, right, context);
  if (left.is_number() && right.is_number()) return real_arithmetic(op, left.real(), right.real(), context);
  if (op == "+" && left.text() != nullptr && right.text() != nullptr) {
    context.spend_bytes(left.text()->size() + right.text()->size());
    const bool markup = left.text()->markup || right.text()->markup;
    Text out = markup ? escaped(left, context) : *left.text();
    out.append(markup ? escaped(right, context) : *right.text());
    out.markup = markup;
    return out;
  }
  const bool lists = left.is_list(ListKind::list) && right.is_list(ListKind::list);
  if (op == "+" && (lists || (left.is_tuple() && right.is_tuple()))) {
    std::vector<Value> items = iterate(left, context);
    const std::vector<Value> more = iterate(right, context);
    items.insert(items.end(), more.begin(), more.end());
    return make_list(std::move(items), context, lists ? ListKind::list : ListKind::tuple);
  }
  if (op == "%" && left.text() != nullptr) return format_percent(*left.text(), right, context);
  if (op == "*" && left.is_integral() && !right.is_number()) return arithmetic(op, right, left, context);
  if (op == "*" && right.is_integral()) {
    if (left.text() != nullptr) return repeat(*left.text(), right.integer(), context);
    if (left.is_list(ListKind::list) || left.is_tuple()) return repeat_list(*left.list(), right.integer(), context);
  }
  mismatch(op, left, right, context);
}

Value negate(const Value& value, Context& context) {
  if (value.is_integral()) return integer_arithmetic("-", 0, value.integer(), context);
  refuse_long(value, value, context);
  if (value.is<double>()) return -value.real();
  context.fail(std::string("a ") + value.type_name() + " has no negative");
}

Value plus(const Value& value, Context& context) {
  if (value.is_integral()) return value.integer();
  if (!value.is<double>()) context.fail(std::string("a ") + value.type_name() + " has no sign");
  return value;
}

const Value* find_item(const Dict& dict, const Value& key, Context& context) {
  context.spend(1 + dict.items.size() / 4);
  if (key.text() != nullptr) return dict.find(key.text()->bytes);
  for (const auto& [own, value] : dict.items) {
    if (equal(own, key, context)) return &value;
  }
  return nullptr;
}

Value get_attribute(const Value& object, const std::string& name, Context& context) {
  context.spend(1);
  if (object.is<Undefined>())
    context.fail("'" + object.undefined_name() + "' is undefined, so it has no '" + name + "'");
  if (has_method(object, name)) {
    Callable method;
    method.name = name;
    method.object = object;
    return method;
  }
  if (const Loop* loop = object.loop()) return loop_attribute(*loop, name);
  if (const Namespace* names = object.names()) {
    if (names->kind == Namespace::Kind::cycler && name == "current") return names->values[names->at];
    for (const auto& [key, value] : names->members) {
      if (key == name) return value;
    }
  }
  if (const Dict* dict = object.dict()) {
    context.spend(dict->items.size());
    if (const Value* found = dict->find(name)) return *found;
  }
  if (object.is_list(ListKind::group) && (name == "grouper" || name == "list"))
    return object.list()->items[name == "list" ? 1 : 0];
  if (object.callable() != nullptr || is_foreign_method(object, name))
    context.unsupported("the member '" + name + "' of a " + object.type_name());
  return Undefined{name};
}

Value get_item(const Value& object, const Value& key, Context& context) {
  context.spend(1);
  if (object.is<Undefined>())
    context.fail("'" + object.undefined_name() + "' is undefined, so nothing can be looked up in it");
  if (object.is_sequence() && key.is_integral()) {
    const auto& items = object.list()->items;
    const size_t at = position(key.integer(), items.size());
    return at < items.size() ? items[at] : Value(Undefined{"item " + std::to_string(key.integer())});
  }
  if (const Text* text = object.text(); text != nullptr && key.is_integral()) {
    const auto offsets = character_offsets(*text, context);
    const size_t at = position(key.integer(), offsets.size() - 1);
    if (at + 1 >= offsets.size()) return Undefined{"character " + std::to_string(key.integer())};
    return text->substr(offsets[at], offsets[at + 1] - offsets[at]);
  }
  if (const Dict* dict = object.dict()) {
    if (const Value* const found = find_item(*dict, key, context)) return *found;
  }
  return key.text() == nullptr ? Value(Undefined{"an item"}) : get_attribute(object, key.text()->bytes, context);
}

Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step, Context& context) {
  const auto part = [&](const Value& value, int64_t fallback) {
    if (value.is<None>()) return fallback;
    if (!value.is_integral()) context.fail(std::string("a slice goes to a ") + value.type_name());
    return value.integer();
  };
  if (!object.is_sequence() && object.text() == nullptr)
    context.fail(std::string("a ") + object.type_name() + " cannot be sliced");
  const int64_t by = part(step, 1);
  if (by == 0) context.fail("a slice has the step 0");
  std::vector<size_t> offsets;
  if (object.text() != nullptr) offsets = character_offsets(*object.text(), context);
  const auto size = static_cast<int64_t>(object.list() != nullptr ? object.list()->items.size() : offsets.size() - 1);
  // As Python's slice.indices().
  const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? size : size - 1;
  const auto bound = [&](int64_t index) {
    if (index < 0) index = index < -size ? lowest : index + size;
    return std::clamp(index, lowest, std::max(lowest, highest));
  };
  const int64_t from = start.is<None>() ? (by > 0 ? 0 : size - 1) : bound(part(start, 0));
  const int64_t to = stop.is<None>() ? (by > 0 ? size : -1) : bound(part(stop, 0));
  std::vector<Value> items;
  Text text;
  text.markup = object.text() != nullptr && object.text()->markup;
  for (int64_t i = from; by > 0 ? i < to : i > to;) {
    context.spend(1);
    const auto at = static_cast<size_t>(i);
    if (object.list() != nullptr) {
      items.push_back(object.list()->items[at]);
    } else {
      text.append(*object.text(), offsets[at], offsets[at + 1] - offsets[at]);
    }
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  if (object.text() != nullptr) return text;
  if (object.is_list(ListKind::range)) {
    const List& range = *object.list();
    List rest;
    rest.kind = ListKind::range;
    rest.items = std::move(items);
    rest.start = range.start + from * range.step;
    rest.stop = range.start + to * range.step;
    rest.step = range.step * by;
    return make_list(std::move(rest), context);
  }
  return make_list(std::move(items), context, object.is_tuple() ? ListKind::tuple : ListKind::list);
}

size_t length(const Value& value, Context& context) {
  if (value.is<Undefined>()) return 0;
  if (const Text* text = value.text()) return character_offsets(*text, context).size() - 1;
  if (const List* list = value.list(); list != nullptr && list->kind != ListKind::iterator) return list->items.size();
  if (const Dict* dict = value.dict()) return dict->items.size();
  if (const Loop* loop = value.loop()) return loop->items->size();
  context.fail(std::string("a ") + value.type_name() + " has no length");
}

bool is_iterable(const Value& value) {
  return value.text() != nullptr || value.list() != nullptr || value.dict() != nullptr || value.is<Undefined>();
}

bool contains(const Value& container, const Value& value, Context& context) {
  if (const Text* text = container.text()) {
    if (value.text() == nullptr) context.fail(std::string("a ") + value.type_name() + " cannot be in a string");
    context.spend_bytes(text->size());
    return find_bytes(text->bytes, value.text()->bytes) != std::string::npos;
  }
  if (container.dict() != nullptr || container.is_list(ListKind::keys)) check_hashable(value, context);
  if (const Dict* dict = container.dict()) return find_item(*dict, value, context) != nullptr;
  for (const Value& item : iterate(container, context)) {
    if (equal(item, value, context)) return true;
  }
  return false;
}

}  // namespace weft::jinja
