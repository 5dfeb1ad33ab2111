// Methods of dicts, lists, loops and namespaces, and the functions every template has.
#include <locale.h>

#include <algorithm>
#include <ctime>

#include "base/error.h"
#include "base/utf8.h"
#include "template/jinja_builtins.h"
#include "template/jinja_lexer.h"
#include "template/jinja_text.h"

namespace weft::jinja {

namespace {

constexpr int64_t kMaxRange = 100000;  // as Jinja's sandbox has it

// ---- Methods ----

template <ListKind kind>
Value dict_view(const Value& input, const BoundArguments&, Context& context) {
  std::vector<Value> items;
  for (const auto& [key, value] : input.dict()->items) {
    items.push_back(kind == ListKind::keys     ? key
                    : kind == ListKind::values ? value
                                               : make_list({key, value}, context, ListKind::tuple));
  }
  return make_list(std::move(items), context, kind);
}

Value dict_get(const Value& input, const BoundArguments& in, Context& context) {
  check_hashable(in.value("key"), context);
  if (const Value* const found = find_item(*input.dict(), in.value("key"), context)) return *found;
  return in.find("default") == nullptr ? Value(None{}) : in.value("default");
}

Value copy(const Value& input, const BoundArguments&, Context&) { return input; }

Value list_index(const Value& input, const BoundArguments& in, Context& context) {
  const auto& items = input.list()->items;
  const auto size = static_cast<int64_t>(items.size());
  const auto bound = [&](std::string_view name, int64_t fallback) {
    const int64_t given = in.integer(name, fallback);
    return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
  };
  for (int64_t i = bound("start", 0), end = bound("stop", size); i < end; ++i) {
    if (equal(items[static_cast<size_t>(i)], in.value("value"), context)) return i;
  }
  in.fail("looks for a value that is not there");
}

Value list_count(const Value& input, const BoundArguments& in, Context& context) {
  const auto& items = input.list()->items;
  return static_cast<int64_t>(std::count_if(
      items.begin(), items.end(), [&](const Value& item) { return equal(item, in.value("value"), context); }));
}

Value loop_cycle(const Value& input, const BoundArguments& in, Context&) {
  const auto& values = in.all().positional;
  if (!in.all().named.empty()) in.fail("has no argument " + in_quotes(in.all().named[0].first));
  if (values.empty()) in.fail("is given nothing");
  return values[input.loop()->index % values.size()];
}

Value loop_changed(const Value& input, const BoundArguments& in, Context& context) {
  if (!in.all().named.empty()) in.fail("has no argument " + in_quotes(in.all().named[0].first));
  Loop& loop = *input.loop();
  const Value now = make_list(in.all().positional, context, ListKind::tuple);
  const bool changed = !loop.has_changed || !equal(loop.last_changed, now, context);
  loop.has_changed = true;
  loop.last_changed = now;
  return changed;
}

Value cycler_next(const Value& input, const BoundArguments&, Context&) {
  Namespace& cycler = *input.names();
  const Value now = cycler.values[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.values.size();
  return now;
}

Value cycler_reset(const Value& input, const BoundArguments&, Context&) {
  input.names()->at = 0;
  return None{};
}

constexpr Builtin kDictMethods[] = {{"copy", "", copy},
                                    {"get", "key default? /", dict_get},
                                    {"items", "", dict_view<ListKind::items>},
                                    {"keys", "", dict_view<ListKind::keys>},
                                    {"values", "", dict_view<ListKind::values>}};
constexpr Builtin kListMethods[] = {
    {"copy", "", copy}, {"count", "value /", list_count}, {"index", "value start? stop? /", list_index}};
constexpr Builtin kTupleMethods[] = {{"count", "value /", list_count}, {"index", "value start? stop? /", list_index}};
constexpr Builtin kLoopMethods[] = {{"changed", "*", loop_changed}, {"cycle", "*", loop_cycle}};
constexpr Builtin kCyclerMethods[] = {{"next", "", cycler_next}, {"reset", "", cycler_reset}};

std::span<const Builtin> methods_of(const Value& object) {
  if (object.text() != nullptr) return string_methods();
  if (object.dict() != nullptr) return kDictMethods;
  if (object.is_list(ListKind::list)) return kListMethods;
  if (object.is_tuple() || object.is_list(ListKind::range)) return kTupleMethods;
  if (object.loop() != nullptr) return kLoopMethods;
  if (object.names() != nullptr && object.names()->kind == Namespace::Kind::cycler) return kCyclerMethods;
  return {};
}

// Attributes of Python's types that templates may use there and not here.
constexpr std::string_view kForeignText[] = {"encode", "maketrans", "translate"};
constexpr std::string_view kForeignMarkup[] = {"escape", "striptags", "unescape"};
constexpr std::string_view kForeignNumber[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "fromhex", "hex", "imag",
    "is_integer",       "numerator", "real",       "to_bytes"};
constexpr std::string_view kForeignRange[] = {"start", "step", "stop"};
constexpr std::string_view kForeignView[] = {"isdisjoint", "mapping"};
constexpr std::string_view kForeignDict[] = {"fromkeys"};

// ---- Functions ----

Value make_range(int64_t start, int64_t stop, int64_t step, Context& context) {
  if (step == 0) context.fail("range() with the step 0");
  List range;
  range.kind = ListKind::range;
  range.start = start;
  range.stop = stop;
  range.step = step;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    context.spend(1);
    if (static_cast<int64_t>(range.items.size()) == kMaxRange)
      context.fail("a range of more than " + std::to_string(kMaxRange) + " numbers");
    range.items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(std::move(range), context);
}

Value range(const Arguments& arguments, Context& context) {
  if (arguments.positional.size() < 2) {
    const BoundArguments in(arguments, "stop /", "the function", "range", context);
    return make_range(0, in.integer("stop"), 1, context);
  }
  const BoundArguments in(arguments, "start stop step? /", "the function", "range", context);
  return make_range(in.integer("start"), in.integer("stop"), in.integer("step", 1), context);
}

// In English whatever the process' locale is.
Value strftime_now(const BoundArguments& in, Context& context) {
  const Text& format = in.text("format");
  if (format.size() > 256) context.fail("a date format of more than 256 bytes");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) context.fail("the time cannot be told");
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  char out[4096];
  return Text(std::string(out, strftime_l(out, sizeof out, format.bytes.c_str(), &local, plain)));
}

[[noreturn]] void raise_exception(const BoundArguments& in, Context& context) {
  const Text message = to_text(in.value("message"), context);
  throw Error(Code::invalid_argument,
              "the chat template refuses the conversation: " + replace_invalid_utf8(message.bytes),
              template_place(context.place(), context.line));
}

// dict(): of a dict, or of pairs.
Value make_dict_of(const std::string& name, const Arguments& arguments, Context& context) {
  std::vector<std::pair<Value, Value>> items;
  if (arguments.positional.size() > 1) context.fail("the function '" + name + "' takes one argument without a name");
  for (const Value& source : arguments.positional) {
    if (source.dict() != nullptr) {
      items = source.dict()->items;
      continue;
    }
    for (const Value& item : iterate(source, context)) {
      const std::vector<Value> pair = iterate(item, context);
      if (pair.size() != 2) context.fail("the function '" + name + "' takes pairs of a key and a value");
      items.emplace_back(pair[0], pair[1]);
    }
  }
  for (const auto& [key, value] : arguments.named) items.emplace_back(Value(key), value);
  return make_dict(std::move(items), context);
}

Value make_namespace(const Arguments& arguments, Context& context) {
  const Value dict = make_dict_of("namespace", arguments, context);
  context.namespaces.emplace_back();
  for (const auto& [key, value] : dict.dict()->items)
    context.namespaces.back().members.emplace_back(to_text(key, context).bytes, value);
  return &context.namespaces.back();
}

Value make_cycler(const Arguments& arguments, Context& context) {
  if (!arguments.named.empty())
    context.fail("the function 'cycler' has no argument " + in_quotes(arguments.named[0].first));
  if (arguments.positional.empty()) context.fail("the function 'cycler' is given nothing");
  Namespace& cycler = context.namespaces.emplace_back();
  cycler.kind = Namespace::Kind::cycler;
  cycler.values = arguments.positional;
  return &cycler;
}

Value make_joiner(const BoundArguments& in, Context& context) {
  Namespace& joiner = context.namespaces.emplace_back();
  joiner.kind = Namespace::Kind::joiner;
  joiner.values.push_back(in.find("sep") == nullptr ? Value(Text(", ")) : in.value("sep"));
  return &joiner;
}

constexpr std::string_view kFunctions[] = {"range",  "namespace",       "dict",        "cycler",
                                           "joiner", "raise_exception", "strftime_now"};

template <size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  return find_builtin(methods_of(object), name) != nullptr;
}

bool is_foreign_method(const Value& object, std::string_view name) {
  if (const Text* const text = object.text())
    return among(kForeignText, name) || (text->markup && among(kForeignMarkup, name));
  if (object.is_number()) return among(kForeignNumber, name);
  if (object.dict() != nullptr) return among(kForeignDict, name);
  if (object.is_list(ListKind::range)) return among(kForeignRange, name);
  return object.is_list(ListKind::keys, ListKind::values, ListKind::items) && among(kForeignView, name);
}

Value call_method(const Value& object, const std::string& name, const Arguments& arguments, Context& context) {
  context.spend(1);
  const Builtin* const method = find_builtin(methods_of(object), name);
  return method->run(object, BoundArguments(arguments, method->parameters, "the method", method->name, context),
                     context);
}

bool is_function(std::string_view name) { return among(kFunctions, name); }

Value call_function(const std::string& name, const Arguments& arguments, Context& context) {
  context.spend(1);
  const auto bound = [&](std::string_view parameters) {
    return BoundArguments(arguments, parameters, "the function", name, context);
  };
  if (name == "range") return range(arguments, context);
  if (name == "strftime_now") return strftime_now(bound("format"), context);
  if (name == "raise_exception") raise_exception(bound("message"), context);
  if (name == "dict") return make_dict_of(name, arguments, context);
  if (name == "cycler") return make_cycler(arguments, context);
  if (name == "joiner") return make_joiner(bound("sep?"), context);
  return make_namespace(arguments, context);
}

Value call_joiner(Namespace& joiner, const Arguments& arguments, Context& context) {
  const BoundArguments in(arguments, "", "the function", "joiner", context);
  return joiner.at++ == 0 ? Value(Text()) : joiner.values[0];
}

}  // namespace weft::jinja
