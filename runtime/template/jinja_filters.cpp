// Filters of lists, dicts and other values that are gone through, as jinja2/filters.py of Jinja 3.1 has them.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "template/jinja_builtins.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

// The names of an attribute argument: "a.b.0" is three.
std::vector<Value> attribute_parts(const Value& attribute, Context& context) {
  if (attribute.text() == nullptr) return {attribute};
  std::vector<Value> parts;
  const Text dot(".");
  for (const Text& name : split(*attribute.text(), &dot, -1, context)) {
    int64_t index = 0;
    const char* const end = name.bytes.data() + name.size();
    const auto parsed = std::from_chars(name.bytes.data(), end, index);
    const bool number = parsed.ec == std::errc() && parsed.ptr == end && index >= 0 && name.bytes[0] != '-';
    parts.push_back(number ? Value(index) : Value(name));
  }
  return parts;
}

// Gets the members that a filter's argument "attribute" names; the items themselves for none.
class Getter {
 public:
  explicit Getter(const Value* attribute, Context& context, const Value* fallback = nullptr, bool fold_case = false)
      : fallback_(fallback), fold_case_(fold_case), context_(context) {
    if (attribute != nullptr && !attribute->is<None>()) parts_ = attribute_parts(*attribute, context);
  }

  Value operator()(const Value& item) const {
    Value value = item;
    for (const Value& part : parts_) {
      value = get_item(value, part, context_);
      if (fallback_ != nullptr && value.is<Undefined>()) value = *fallback_;
    }
    return fold_case_ && value.text() != nullptr ? Value(lower(*value.text(), context_)) : value;
  }

 private:
  std::vector<Value> parts_;
  const Value* fallback_;
  bool fold_case_;
  Context& context_;
};

// An iterator over the values that next(item, out) appends for each item. Errors of the template are kept and
// thrown when the iterator is read, because Jinja's generators run that late.
template <typename Next>
Value generate(const Value& input, Context& context, Next next) {
  List out;
  out.kind = ListKind::iterator;
  try {
    for (const Value& item : iterate(input, context)) next(item, out.items);
  } catch (const Error& error) {
    if (error.code() != Code::bad_file || context.is_spent()) throw;
    out.failure = std::current_exception();
  }
  return make_list(std::move(out), context);
}

// The arguments from a position on, for the filter or test named before it.
Arguments arguments_from(const Arguments& arguments, size_t from) {
  Arguments rest;
  for (size_t i = from; i < arguments.positional.size(); ++i) rest.positional.push_back(arguments.positional[i]);
  rest.named = arguments.named;
  return rest;
}

const std::string& name_argument(const BoundArguments& in, size_t position) {
  const Value& name = in.all().positional[position];
  if (name.text() == nullptr) in.fail(std::string("has a ") + name.type_name() + " for a name");
  return name.text()->bytes;
}

template <bool keep, bool by_attribute>
Value select(const Value& input, const BoundArguments& in, Context& context) {
  const auto& given = in.all().positional;
  const size_t test = by_attribute ? 1 : 0;
  if (given.size() < test) in.fail("lacks its argument 'attribute'");
  if (given.size() == test && !in.all().named.empty())
    context.unsupported("the argument '" + in.all().named[0].first + "' of a filter 'select' without a test");
  if (!input.truthy()) return make_list({}, context, ListKind::iterator);
  const Getter get(by_attribute ? &given[0] : nullptr, context);
  const Arguments rest = arguments_from(in.all(), test + 1);
  return generate(input, context, [&](const Value& item, std::vector<Value>& out) {
    const Value value = get(item);
    const bool passes =
        given.size() > test ? apply_test(name_argument(in, test), value, rest, context) : value.truthy();
    if (passes == keep) out.push_back(item);
  });
}

Value map(const Value& input, const BoundArguments& in, Context& context) {
  if (!input.truthy()) return make_list({}, context, ListKind::iterator);
  if (!in.all().positional.empty()) {
    const Arguments rest = arguments_from(in.all(), 1);
    return generate(input, context, [&](const Value& item, std::vector<Value>& out) {
      out.push_back(apply_filter(name_argument(in, 0), item, rest, context));
    });
  }
  const BoundArguments named(in.all(), "attribute default?", "the filter", "map", context);
  const Getter get(&named.value("attribute"), context, named.find_not_none("default"));
  return generate(input, context, [&](const Value& item, std::vector<Value>& out) { out.push_back(get(item)); });
}

std::vector<Value> sorted(std::vector<std::pair<Value, Value>> keyed, bool reverse, Context& context) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first, context) : less(a.first, b.first, context);
  });
  std::vector<Value> out;
  for (auto& item : keyed) out.push_back(std::move(item.second));
  return out;
}

// attribute: several with commas between.
Value sort(const Value& input, const BoundArguments& in, Context& context) {
  const bool fold_case = !in.boolean("case_sensitive", false);
  std::vector<Getter> getters;
  const Value* const attribute = in.find_not_none("attribute");
  if (attribute != nullptr && attribute->text() != nullptr) {
    const Text comma(",");
    for (Text& name : split(*attribute->text(), &comma, -1, context)) {
      const Value part(std::move(name));
      getters.emplace_back(&part, context, nullptr, fold_case);
    }
  } else {
    getters.emplace_back(attribute, context, nullptr, fold_case);
  }
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(input, context)) {
    std::vector<Value> key;
    for (const Getter& get : getters) key.push_back(get(item));
    keyed.emplace_back(make_list(std::move(key), context), item);
  }
  return make_list(sorted(std::move(keyed), in.integer("reverse", 0) != 0, context), context);
}

Value dict_sort(const Value& input, const BoundArguments& in, Context& context) {
  if (input.dict() == nullptr) in.fail(std::string("is given a ") + input.type_name());
  const Value* const by = in.find("by");
  const std::string order = by == nullptr ? "key" : by->text() == nullptr ? "" : by->text()->bytes;
  if (order != "key" && order != "value") in.fail("sorts by 'key' or by 'value'");
  const Getter get(nullptr, context, nullptr, !in.boolean("case_sensitive", false));
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : input.dict()->items) {
    std::vector<Value> sorted_by = {get(order == "key" ? key : value)};
    keyed.emplace_back(make_list(std::move(sorted_by), context), make_list({key, value}, context, ListKind::tuple));
  }
  return make_list(sorted(std::move(keyed), in.integer("reverse", 0) != 0, context), context);
}

Value group_by(const Value& input, const BoundArguments& in, Context& context) {
  const bool fold_case = !in.boolean("case_sensitive", false);
  const Value* const fallback = in.find_not_none("default");
  const Getter get(&in.value("attribute"), context, fallback, fold_case),
      as_it_is(&in.value("attribute"), context, fallback);
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : iterate(input, context)) keyed.emplace_back(get(item), item);
  const std::vector<Value> items = sorted(std::move(keyed), false, context);
  std::vector<Value> groups;
  for (size_t i = 0; i < items.size();) {
    const Value key = get(items[i]);
    std::vector<Value> members;
    const size_t first = i;
    for (; i < items.size() && equal(get(items[i]), key, context); ++i) members.push_back(items[i]);
    groups.push_back(make_list({fold_case ? as_it_is(items[first]) : key, make_list(std::move(members), context)},
                               context, ListKind::group));
  }
  return make_list(std::move(groups), context);
}

template <bool largest>
Value extreme(const Value& input, const BoundArguments& in, Context& context) {
  const std::vector<Value> items = iterate(input, context);
  if (items.empty()) return Undefined{"the extreme of nothing"};
  const Getter get(in.find("attribute"), context, nullptr, !in.boolean("case_sensitive", false));
  size_t best = 0;
  Value best_key = get(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = get(items[i]);
    if (!(largest ? less(best_key, key, context) : less(key, best_key, context))) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value unique(const Value& input, const BoundArguments& in, Context& context) {
  const Getter get(in.find("attribute"), context, nullptr, !in.boolean("case_sensitive", false));
  std::vector<Value> seen;
  return generate(input, context, [&](const Value& item, std::vector<Value>& out) {
    Value key = get(item);
    check_hashable(key, context);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& other) { return equal(other, key, context); })) return;
    seen.push_back(std::move(key));
    out.push_back(item);
  });
}

Value join(const Value& input, const BoundArguments& in, Context& context) {
  const Text separator = in.find("d") == nullptr ? Text() : to_text(in.value("d"), context);
  const Getter get(in.find("attribute"), context);
  Text out;
  bool first = true;
  for (const Value& item : iterate(input, context)) {
    if (!first) {
      context.spend_bytes(separator.size());
      out.append(separator);
    }
    out.append(to_text(get(item), context));
    first = false;
  }
  return out;
}

Value sum(const Value& input, const BoundArguments& in, Context& context) {
  const Getter get(in.find("attribute"), context);
  const Value* const start = in.find("start");
  if (start != nullptr && start->text() != nullptr) in.fail("adds no strings");
  Value total = start == nullptr ? Value(int64_t{0}) : *start;
  for (const Value& item : iterate(input, context)) total = arithmetic("+", total, get(item), context);
  return total;
}

Value batch(const Value& input, const BoundArguments& in, Context& context) {
  const Value* const fill = in.find_not_none("fill_with");
  const Value& given = in.value("linecount");
  const bool endless = fill == nullptr && (given.is<None>() || given.is<Undefined>());  // no length equals it
  const int64_t size = endless ? -1 : in.integer("linecount");
  std::vector<Value> batch;
  std::vector<Value> batches;
  for (const Value& item : iterate(input, context)) {
    if (static_cast<int64_t>(batch.size()) == size) batches.push_back(make_list(std::exchange(batch, {}), context));
    batch.push_back(item);
  }
  if (!batch.empty()) {
    while (fill != nullptr && static_cast<int64_t>(batch.size()) < size) {
      context.spend(1);
      batch.push_back(*fill);
    }
    batches.push_back(make_list(std::move(batch), context));
  }
  return make_list(std::move(batches), context, ListKind::iterator);
}

Value slice(const Value& input, const BoundArguments& in, Context& context) {
  const std::vector<Value> items = iterate(input, context);
  const int64_t slices = in.integer("slices"), size = static_cast<int64_t>(items.size());
  const Value* const fill = in.find_not_none("fill_with");
  if (slices == 0) in.fail("makes 0 slices");
  std::vector<Value> out;
  int64_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    context.spend(1);
    const bool longer = i < size % slices;
    const int64_t end = at + size / slices + (longer ? 1 : 0);
    std::vector<Value> slice(items.begin() + at, items.begin() + end);
    if (fill != nullptr && !longer) slice.push_back(*fill);
    out.push_back(make_list(std::move(slice), context));
    at = end;
  }
  return make_list(std::move(out), context, ListKind::iterator);
}

Value first(const Value& input, const BoundArguments&, Context& context) {
  if (input.is_list(ListKind::iterator)) {
    const List& list = *input.list();
    if (list.taken < list.items.size()) return list.items[list.taken++];
  }
  const std::vector<Value> items = iterate(input, context);
  return items.empty() ? Value(Undefined{"the first of nothing"}) : items.front();
}

Value last(const Value& input, const BoundArguments& in, Context& context) {
  if (input.is_list(ListKind::iterator)) in.fail("is given a generator");
  const std::vector<Value> items = iterate(input, context);
  return items.empty() ? Value(Undefined{"the last of nothing"}) : items.back();
}

Value reverse(const Value& input, const BoundArguments&, Context& context) {
  std::vector<Value> items = iterate(input, context);
  std::reverse(items.begin(), items.end());
  if (input.text() == nullptr) {
    return make_list(std::move(items), context,
                     input.is_list(ListKind::iterator) ? ListKind::list : ListKind::iterator);
  }
  Text out;
  for (const Value& item : items) out.append(*item.text());
  out.markup = input.text()->markup;
  return out;
}

Value items(const Value& input, const BoundArguments& in, Context& context) {
  if (input.is<Undefined>()) return make_list({}, context, ListKind::iterator);
  return generate(Value::list({input}), context, [&](const Value& dict, std::vector<Value>& out) {
    if (dict.dict() == nullptr) in.fail(std::string("is given a ") + dict.type_name());
    for (const auto& [key, value] : dict.dict()->items)
      out.push_back(make_list({key, value}, context, ListKind::tuple));
  });
}

Value list(const Value& input, const BoundArguments&, Context& context) {
  return make_list(iterate(input, context), context);
}

Value count(const Value& input, const BoundArguments&, Context& context) {
  return static_cast<int64_t>(length(input, context));
}

Value fall_back(const Value& input, const BoundArguments& in, Context&) {
  const bool missing = input.is<Undefined>() || (in.boolean("boolean", false) && !input.truthy());
  if (!missing) return input;
  const Value* const fallback = in.find("default_value");
  return fallback == nullptr ? Value(Text()) : *fallback;
}

// obj.name without obj["name"].
Value attribute(const Value& input, const BoundArguments& in, Context& context) {
  if (in.value("name").text() == nullptr) in.wrong_type("name", in.value("name"), "a string");
  const std::string name = to_text(in.value("name"), context).bytes;
  if (input.is<Undefined>()) return get_attribute(input, name, context);
  if (input.dict() != nullptr && !has_method(input, name)) return Undefined{name};
  return get_attribute(input, name, context);
}

Value dump_json(const Value& input, const BoundArguments& in, Context& context) {
  JsonStyle style;
  style.ascii = in.boolean("ensure_ascii", false);
  style.sort_keys = in.boolean("sort_keys", false);
  if (const Value* const indent = in.find_not_none("indent")) {
    style.indent = indent->text() != nullptr ? *indent->text() : repeat(Text(" "), in.integer("indent"), context);
    style.item_separator = ",";
  }
  if (const Value* const separators = in.find_not_none("separators")) {
    const std::vector<Value> pair = iterate(*separators, context);
    if (pair.size() != 2 || pair[0].text() == nullptr || pair[1].text() == nullptr)
      in.fail("takes two strings as 'separators'");
    style.item_separator = pair[0].text()->bytes;
    style.key_separator = pair[1].text()->bytes;
  }
  return to_json(input, style, context);
}

constexpr Builtin kFilters[] = {
    {"attr", "name", attribute},
    {"batch", "linecount fill_with?", batch},
    {"count", "", count},
    {"d", "default_value? boolean?", fall_back},
    {"default", "default_value? boolean?", fall_back},
    {"dictsort", "case_sensitive? by? reverse?", dict_sort},
    {"first", "", first},
    {"groupby", "attribute default? case_sensitive?", group_by},
    {"items", "", items},
    {"join", "d? attribute?", join},
    {"last", "", last},
    {"length", "", count},
    {"list", "", list},
    {"map", "*", map},
    {"max", "case_sensitive? attribute?", extreme<true>},
    {"min", "case_sensitive? attribute?", extreme<false>},
    {"reject", "*", select<false, false>},
    {"rejectattr", "*", select<false, true>},
    {"reverse", "", reverse},
    {"select", "*", select<true, false>},
    {"selectattr", "*", select<true, true>},
    {"slice", "slices fill_with?", slice},
    {"sort", "reverse? case_sensitive? attribute?", sort},
    {"sum", "attribute? start?", sum},
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", dump_json},
    {"unique", "case_sensitive? attribute?", unique},
};

const Builtin* find_filter(std::string_view name) {
  for (const std::span<const Builtin> filters :
       {std::span<const Builtin>(kFilters), text_filters(), number_filters()}) {
    if (const Builtin* const found = find_builtin(filters, name)) return found;
  }
  return nullptr;
}

}  // namespace

bool is_filter(std::string_view name) { return find_filter(name) != nullptr; }

Value apply_filter(const std::string& name, const Value& input, const Arguments& arguments, Context& context) {
  const Context::Level level(context);
  context.spend(1 + arguments.positional.size());
  const Builtin* const filter = find_filter(name);
  if (filter == nullptr) context.unsupported("the filter '" + name + "'");
  return filter->run(input, BoundArguments(arguments, filter->parameters, "the filter", filter->name, context),
                     context);
}

}  // namespace weft::jinja
