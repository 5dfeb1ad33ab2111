// Filters and tests.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/number.h"
#include "base/utf8.h"
#include "template/jinja_builtins.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

// "a.b.0": the members a filter's attribute argument names.
Value attribute_path(const Value& item, const Value& path, Context& context) {
  if (path.is_integral()) return get_item(item, path, context);
  Value value = item;
  for (const Text& part : split(to_text(path, context), nullptr, -1, context)) {
    const Text dot(".");
    for (const Text& name : split(part, &dot, -1, context)) {
      int64_t index = 0;
      const char* end = name.bytes.data() + name.size();
      const auto parsed = std::from_chars(name.bytes.data(), end, index);
      const bool number = parsed.ec == std::errc() && parsed.ptr == end;
      value = get_item(value, number ? Value(index) : Value(name), context);
    }
  }
  return value;
}

// The arguments from a position on, for the filter or test named at it.
Arguments rest_of(const Arguments& arguments, size_t from) {
  Arguments rest;
  for (size_t i = from; i < arguments.positional.size(); ++i) rest.positional.push_back(arguments.positional[i]);
  rest.named = arguments.named;
  return rest;
}

// select, reject, selectattr, rejectattr.
Value select(const Value& input, const Arguments& arguments, bool keep, bool by_attribute, Context& context) {
  const ArgumentReader in(arguments, "a selecting filter", context);
  const size_t test = by_attribute ? 1 : 0;
  std::vector<Value> out;
  for (const Value& item : iterate(input, context)) {
    const Value value = by_attribute ? attribute_path(item, in.value(0, "attribute"), context) : item;
    const bool named = arguments.positional.size() > test;
    const bool passes =
        named ? apply_test(in.text(test, "test").bytes, value, rest_of(arguments, test + 1), context) : value.truthy();
    if (passes == keep) out.push_back(item);
  }
  return make_list(std::move(out), context);
}

Value map(const Value& input, const Arguments& arguments, Context& context) {
  const ArgumentReader in(arguments, "the filter 'map'", context);
  const bool by_filter = !arguments.positional.empty();
  const Value* fallback = by_filter ? nullptr : in.find(9, "default");
  std::vector<Value> out;
  for (const Value& item : iterate(input, context)) {
    if (by_filter) {
      out.push_back(apply_filter(in.text(0, "filter").bytes, item, rest_of(arguments, 1), context));
      continue;
    }
    Value value = attribute_path(item, in.value(9, "attribute"), context);
    out.push_back(value.is<Undefined>() && fallback != nullptr ? *fallback : std::move(value));
  }
  return make_list(std::move(out), context);
}

Value sort(const Value& input, const ArgumentReader& in, size_t first, Context& context) {
  const bool reverse = in.boolean(first, "reverse", false),
             case_sensitive = in.boolean(first + 1, "case_sensitive", false);
  const Value* attribute = in.find(first + 2, "attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(input, context)) {
    Value key = attribute == nullptr ? item : attribute_path(item, *attribute, context);
    if (!case_sensitive && key.text() != nullptr) key = lower(*key.text(), context);
    keyed.emplace_back(std::move(key), item);
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, context) : less(a.first, b.first, context);
  });
  std::vector<Value> out;
  for (auto& item : keyed) out.push_back(std::move(item.second));
  return make_list(std::move(out), context);
}

Value extreme(const Value& input, bool largest, Context& context) {
  const std::vector<Value> items = iterate(input, context);
  if (items.empty()) return Undefined{"the first of nothing"};
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    if (largest ? less(items[best], items[i], context) : less(items[i], items[best], context)) best = i;
  }
  return items[best];
}

Value unique(const Value& input, Context& context) {
  std::vector<Value> out;
  for (const Value& item : iterate(input, context)) {
    if (std::none_of(out.begin(), out.end(), [&](const Value& other) { return equal(other, item, context); }))
      out.push_back(item);
  }
  return make_list(std::move(out), context);
}

Value join(const Value& input, const ArgumentReader& in, Context& context) {
  const Value* given = in.find(0, "d");
  const Text separator = given == nullptr ? Text() : to_text(*given, context);
  const Value* attribute = in.find(1, "attribute");
  Text out;
  bool first = true;
  for (const Value& item : iterate(input, context)) {
    if (!first) {
      context.spend_bytes(separator.size());
      out.append(separator);
    }
    out.append(to_text(attribute == nullptr ? item : attribute_path(item, *attribute, context), context));
    first = false;
  }
  return out;
}

Value to_integer(const Value& input, int64_t fallback, Context& context) {
  if (input.is_integral()) return input.integer();
  double real = 0;
  if (input.is<double>()) {
    real = input.real();
  } else if (input.text() != nullptr) {
    const std::string text = strip(*input.text(), nullptr, Side::both, context).bytes;
    int64_t integer = 0;
    const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
    if (const auto parsed = std::from_chars(begin, end, integer); parsed.ec == std::errc() && parsed.ptr == end)
      return integer;
    const std::optional<double> parsed = parse_double({begin, end});
    if (!parsed) return fallback;
    real = *parsed;
  } else {
    return fallback;
  }
  return std::abs(real) < 9e18 ? static_cast<int64_t>(real) : fallback;
}

Value to_real(const Value& input, const Value* fallback, Context& context) {
  if (input.is_number()) return input.real();
  if (input.text() != nullptr) {
    const std::string text = strip(*input.text(), nullptr, Side::both, context).bytes;
    if (const auto real = parse_double(text.substr(text.starts_with('+') ? 1 : 0))) return *real;
  }
  return fallback == nullptr ? Value(0.0) : *fallback;
}

Value round(const Value& input, const ArgumentReader& in, Context& context) {
  if (!input.is_number()) context.fail(std::string("a ") + input.type_name() + " cannot be rounded");
  const double scale =
      std::pow(10.0, static_cast<double>(std::clamp<int64_t>(in.integer(0, "precision", 0), -300, 300)));
  const Text* method = in.find_text(1, "method");
  const double scaled = input.real() * scale;
  if (method != nullptr && method->bytes == "ceil") return std::ceil(scaled) / scale;
  if (method != nullptr && method->bytes == "floor") return std::floor(scaled) / scale;
  return std::nearbyint(scaled) / scale;  // to even, as Python's round()
}

Value dump_json(const Value& input, const ArgumentReader& in, Context& context) {
  JsonStyle style;
  style.ascii = in.boolean(9, "ensure_ascii", false);
  style.sort_keys = in.boolean(9, "sort_keys", false);
  style.indent = static_cast<int>(std::clamp<int64_t>(in.integer(9, "indent", -1), -1, 64));
  if (style.indent >= 0) style.item_separator = ",";
  if (const Value* separators = in.find(9, "separators"); separators != nullptr && separators->list() != nullptr) {
    const auto& items = separators->list()->items;
    if (items.size() != 2) context.fail("tojson takes two separators");
    style.item_separator = to_text(items[0], context).bytes;
    style.key_separator = to_text(items[1], context).bytes;
  }
  return to_json(input, style, context);
}

Value dict_sort(const Value& input, Context& context) {
  if (input.dict() == nullptr) context.fail(std::string("dictsort of a ") + input.type_name());
  Arguments by_key;
  by_key.named.emplace_back("attribute", Value(int64_t{0}));
  const Value items = call_method(input, "items", {}, context);
  return sort(items, ArgumentReader(by_key, "the filter 'dictsort'", context), 9, context);
}

Value first_or_last(const Value& input, bool first, Context& context) {
  const std::vector<Value> items = iterate(input, context);
  if (items.empty()) return Undefined{first ? "the first of nothing" : "the last of nothing"};
  return first ? items.front() : items.back();
}

Value reversed(const Value& input, Context& context) {
  std::vector<Value> items = iterate(input, context);
  std::reverse(items.begin(), items.end());
  if (input.text() == nullptr) return make_list(std::move(items), context);
  Text out;
  for (const Value& item : items) out.append(*item.text());
  return out;
}

Value sum(const Value& input, const ArgumentReader& in, Context& context) {
  const Value *attribute = in.find(0, "attribute"), *start = in.find(1, "start");
  Value total = start == nullptr ? Value(int64_t{0}) : *start;
  for (const Value& item : iterate(input, context)) {
    total = arithmetic("+", total, attribute == nullptr ? item : attribute_path(item, *attribute, context), context);
  }
  return total;
}

Value absolute(const Value& input, Context& context) {
  if (!input.is_number()) context.fail(std::string("abs of a ") + input.type_name());
  return input.real() < 0 ? negate(input, context) : input;
}

// Filters whose input is taken as text.
Value text_filter(const std::string& name, const Value& input, const ArgumentReader& in, Context& context) {
  const Text text = to_text(input, context);
  if (name == "trim") return strip(text, in.find_text(0, "chars"), Side::both, context);
  if (name == "upper") return upper(text, context);
  if (name == "lower") return lower(text, context);
  if (name == "title") return title(text, true, context);
  if (name == "capitalize") return capitalize(text, context);
  if (name == "replace") {
    return replace(text, to_text(in.value(0, "old"), context), to_text(in.value(1, "new"), context),
                   in.integer(2, "count", -1), context);
  }
  if (name == "indent") {
    const Value* width = in.find(0, "width");
    const Text indention = width != nullptr && width->text() != nullptr
                               ? *width->text()
                               : repeat(Text(" "), in.integer(0, "width", 4), context);
    return indent(text, indention, in.boolean(1, "first", false), in.boolean(2, "blank", false), context);
  }
  if (name == "escape" || name == "e") return escape_html(text, context);
  return text;  // string, safe
}

Value fallback_filter(const Value& input, const ArgumentReader& in) {
  const bool missing = input.is<Undefined>() || (in.boolean(1, "boolean", false) && !input.truthy());
  if (!missing) return input;
  const Value* fallback = in.find(0, "default_value");
  return fallback == nullptr ? Value(Text()) : *fallback;
}

}  // namespace

Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments, Context& context) {
  const Context::Level level(context);
  context.spend(1 + arguments.positional.size());
  const ArgumentReader in(arguments, "the filter '" + name + "'", context);
  static constexpr std::string_view kText[] = {"trim",   "upper",  "lower", "title",  "capitalize", "replace",
                                               "indent", "escape", "e",     "string", "safe"};
  if (std::find(std::begin(kText), std::end(kText), name) != std::end(kText))
    return text_filter(name, input, in, context);
  if (name == "default" || name == "d") return fallback_filter(input, in);
  if (name == "length" || name == "count") return static_cast<int64_t>(length(input, context));
  if (name == "join") return join(input, in, context);
  if (name == "tojson") return dump_json(input, in, context);
  if (name == "first" || name == "last") return first_or_last(input, name == "first", context);
  if (name == "list") return make_list(iterate(input, context), context);
  if (name == "items") {
    if (input.is<Undefined>()) return make_list({}, context);
    if (input.dict() == nullptr) context.fail(std::string("a ") + input.type_name() + " has no items");
    return call_method(input, "items", {}, context);
  }
  if (name == "map") return map(input, arguments, context);
  if (name == "select" || name == "reject") return select(input, arguments, name == "select", false, context);
  if (name == "selectattr" || name == "rejectattr")
    return select(input, arguments, name == "selectattr", true, context);
  if (name == "int") return to_integer(input, in.integer(0, "default", 0), context);
  if (name == "float") return to_real(input, in.find(0, "default"), context);
  if (name == "abs") return absolute(input, context);
  if (name == "round") return round(input, in, context);
  if (name == "sort") return sort(input, in, 0, context);
  if (name == "dictsort") return dict_sort(input, context);
  if (name == "reverse") return reversed(input, context);
  if (name == "unique") return unique(input, context);
  if (name == "min" || name == "max") return extreme(input, name == "max", context);
  if (name == "sum") return sum(input, in, context);
  context.unsupported("the filter '" + name + "'");
}

bool apply_test(const std::string& name, const Value& input, const Arguments& arguments, Context& context) {
  context.spend(1);
  const ArgumentReader in(arguments, "the test '" + name + "'", context);
  if (name == "defined") return !input.is<Undefined>();
  if (name == "undefined") return input.is<Undefined>();
  if (name == "none") return input.is<None>();
  if (name == "string") return input.text() != nullptr;
  if (name == "mapping") return input.dict() != nullptr || input.names() != nullptr;
  if (name == "iterable" || name == "sequence") {
    return input.text() != nullptr || input.list() != nullptr || input.dict() != nullptr || input.is<Undefined>();
  }
  if (name == "boolean") return input.is<bool>();
  if (name == "true" || name == "false") return input.is<bool>() && input.truthy() == (name == "true");
  if (name == "integer") return input.is<int64_t>();
  if (name == "float") return input.is<double>();
  if (name == "number") return input.is_number();
  if (name == "in") return contains(in.value(0, "seq"), input, context);
  if (name == "eq" || name == "equalto" || name == "==") return equal(input, in.value(0, "other"), context);
  if (name == "ne" || name == "!=") return !equal(input, in.value(0, "other"), context);
  if (name == "lt" || name == "lessthan" || name == "<") return less(input, in.value(0, "other"), context);
  if (name == "gt" || name == "greaterthan" || name == ">") return less(in.value(0, "other"), input, context);
  if (name == "le" || name == "<=") return !less(in.value(0, "other"), input, context);
  if (name == "ge" || name == ">=") return !less(input, in.value(0, "other"), context);
  if (name == "sameas") {
    const Value& other = in.value(0, "other");
    return std::string_view(input.type_name()) == other.type_name() && equal(input, other, context);
  }
  if (name == "odd" || name == "even" || name == "divisibleby") {
    if (!input.is_integral()) context.fail(std::string("a ") + input.type_name() + " is neither odd nor even");
    const Value by = name == "divisibleby" ? in.value(0, "num") : Value(int64_t{2});
    return arithmetic("%", input, by, context).truthy() == (name == "odd");
  }
  context.unsupported("the test '" + name + "'");
}

}  // namespace weft::jinja
