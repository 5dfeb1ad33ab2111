// Methods of strings, dicts and loops, and the functions every template has.
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
constexpr std::string_view kStringMethods[] = {
    "strip",        "lstrip",       "rstrip",  "split",      "rsplit",  "splitlines", "startswith", "endswith",
    "upper",        "lower",        "title",   "capitalize", "replace", "find",       "count",      "join",
    "removeprefix", "removesuffix", "isdigit", "isspace",    "isalpha", "rfind",      "index"};
constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get"};
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};
constexpr std::string_view kListMethods[] = {"index", "count"};
constexpr std::string_view kFunctions[] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};

template <size_t N>
bool among(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Value list_of(std::vector<Text> texts, Context& context) {
  std::vector<Value> items;
  for (Text& text : texts) items.emplace_back(std::move(text));
  return make_list(std::move(items), context);
}

// startswith and endswith take a string or a tuple of them.
bool has_affix(const Text& text, const Value& affix, bool at_start, Context& context) {
  if (const List* list = affix.list()) {
    return std::any_of(list->items.begin(), list->items.end(),
                       [&](const Value& item) { return has_affix(text, item, at_start, context); });
  }
  if (affix.text() == nullptr) context.fail(std::string("a string cannot start or end with a ") + affix.type_name());
  context.spend_bytes(affix.text()->size());
  return at_start ? text.bytes.starts_with(affix.text()->bytes) : text.bytes.ends_with(affix.text()->bytes);
}

// Positions are of characters.
Value find_text(const Text& text, const Text& wanted, bool last, Context& context) {
  context.spend_bytes(text.size());
  const size_t hit = last ? rfind_bytes(text.bytes, wanted.bytes) : find_bytes(text.bytes, wanted.bytes);
  if (hit == std::string::npos) return int64_t{-1};
  return static_cast<int64_t>(length(Value(text.substr(0, hit)), context));
}

int64_t count_text(const Text& text, const Text& wanted, Context& context) {
  if (wanted.size() == 0) return static_cast<int64_t>(length(Value(text), context)) + 1;
  context.spend_bytes(text.size());
  int64_t count = 0;
  for (size_t at = 0; (at = find_bytes(text.bytes, wanted.bytes, at)) != std::string::npos; at += wanted.size())
    ++count;
  return count;
}

// isdigit and its like, for ASCII: true if all characters satisfy, and there is one.
bool all_ascii(const Text& text, std::string_view name) {
  bool any = false;
  for (const char c : text.bytes) {
    const bool lower_case = c >= 'a' && c <= 'z', upper_case = c >= 'A' && c <= 'Z', letter = lower_case || upper_case;
    if (name == "isdigit" && !(c >= '0' && c <= '9')) return false;
    if (name == "isspace" && !is_unicode_space(static_cast<unsigned char>(c))) return false;
    if (name == "isalpha" && !letter) return false;
    any = any || letter || name == "isdigit" || name == "isspace";
  }
  return any;
}

Value join(const Text& separator, const Value& items, Context& context) {
  Text out;
  bool first = true;
  for (const Value& item : iterate(items, context)) {
    if (item.text() == nullptr) context.fail(std::string("join() of a ") + item.type_name());
    context.spend_bytes(separator.size() + item.text()->size());
    if (!first) out.append(separator);
    out.append(*item.text());
    first = false;
  }
  return out;
}

Value string_method(const Text& text, const std::string& name, const ArgumentReader& in, Context& context) {
  if (name == "strip") return strip(text, in.find_text(0, "chars"), Side::both, context);
  if (name == "lstrip") return strip(text, in.find_text(0, "chars"), Side::left, context);
  if (name == "rstrip") return strip(text, in.find_text(0, "chars"), Side::right, context);
  if (name == "upper") return upper(text, context);
  if (name == "lower") return lower(text, context);
  if (name == "title") return title(text, false, context);
  if (name == "capitalize") return capitalize(text, context);
  if (name == "startswith" || name == "endswith")
    return has_affix(text, in.value(0, "prefix"), name == "startswith", context);
  if (name == "replace") {
    return replace(text, in.text(0, "old"), in.text(1, "new"), in.integer(2, "count", -1), context);
  }
  const int64_t limit = in.integer(1, "maxsplit", -1);
  const Text* separator = name == "split" || name == "rsplit" ? in.find_text(0, "sep") : nullptr;
  if (name == "split") return list_of(split(text, separator, limit, context), context);
  if (name == "rsplit") {
    if (separator == nullptr && limit >= 0) context.unsupported("rsplit() at white space with a limit");
    return list_of(
        separator == nullptr ? split(text, nullptr, -1, context) : split_right(text, *separator, limit, context),
        context);
  }
  if (name == "splitlines") return list_of(split_lines(text, context), context);
  if (name == "find" || name == "rfind") return find_text(text, in.text(0, "sub"), name == "rfind", context);
  if (name == "index") {
    const Value found = find_text(text, in.text(0, "sub"), false, context);
    if (found.integer() < 0) context.fail("index() of a text that is not there");
    return found;
  }
  if (name == "count") return count_text(text, in.text(0, "sub"), context);
  if (name == "join") return join(text, in.value(0, "iterable"), context);
  context.spend_bytes(text.size());
  if (name == "removeprefix" || name == "removesuffix") {
    const Text& affix = in.text(0, "prefix");
    const bool front = name == "removeprefix";
    if (!has_affix(text, in.value(0, "prefix"), front, context)) return text;
    return text.substr(front ? affix.size() : 0, text.size() - affix.size());
  }
  return all_ascii(text, name);
}

Value dict_method(const Dict& dict, const std::string& name, const ArgumentReader& in, Context& context) {
  if (name == "get") {
    const Value& key = in.value(0, "key");
    for (const auto& [own, value] : dict.items) {
      if (equal(own, key, context)) return value;
    }
    const Value* fallback = in.find(1, "default");
    return fallback == nullptr ? Value(None{}) : *fallback;
  }
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items) {
    items.push_back(name == "keys" ? key : name == "values" ? value : make_list({key, value}, context, true));
  }
  return make_list(std::move(items), context);
}

Value loop_method(Loop& loop, const std::string& name, const Arguments& arguments, Context& context) {
  const auto& values = arguments.positional;
  if (name == "cycle") {
    if (values.empty()) context.fail("loop.cycle() of nothing");
    return values[loop.index % values.size()];
  }
  const Value now = make_list(values, context, true);
  const bool changed = !equal(loop.last_changed, now, context);
  loop.last_changed = now;
  return changed;
}

Value list_method(const List& list, const std::string& name, const ArgumentReader& in, Context& context) {
  int64_t count = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (!equal(list.items[i], in.value(0, "value"), context)) continue;
    if (name == "index") return static_cast<int64_t>(i);
    ++count;
  }
  if (name == "index") context.fail("index() of a value that is not there");
  return count;
}

Value range(const ArgumentReader& in, Context& context) {
  const bool one = in.find(1, "stop") == nullptr;
  const int64_t start = one ? 0 : in.integer(0, "start", 0);
  const int64_t stop = one ? in.integer(0, "stop", 0) : in.integer(1, "stop", 0);
  const int64_t step = in.integer(2, "step", 1);
  if (step == 0) context.fail("range() with the step 0");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    context.spend(1);
    if (static_cast<int64_t>(items.size()) == kMaxRange)
      context.fail("a range of more than " + std::to_string(kMaxRange) + " numbers");
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(std::move(items), context);
}

Value strftime_now(const Text& format, Context& context) {
  if (format.size() > 256) context.fail("a date format of more than 256 bytes");
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) context.fail("the time cannot be told");
  char out[4096];
  return Text(std::string(out, std::strftime(out, sizeof out, format.bytes.c_str(), &local)));
}

}  // namespace

const Value* Arguments::find(size_t position, std::string_view name) const {
  if (position < positional.size()) return &positional[position];
  for (const auto& [own, value] : named) {
    if (own == name) return &value;
  }
  return nullptr;
}

const Value& ArgumentReader::value(size_t position, std::string_view name) const {
  const Value* found = find(position, name);
  if (found == nullptr) context_.fail(what_ + " lacks its argument '" + std::string(name) + "'");
  return *found;
}

const Text& ArgumentReader::text(size_t position, std::string_view name) const {
  const Value& found = value(position, name);
  if (found.text() == nullptr)
    context_.fail(what_ + " has a " + found.type_name() + " for '" + std::string(name) + "', not a string");
  return *found.text();
}

const Text* ArgumentReader::find_text(size_t position, std::string_view name) const {
  const Value* found = find(position, name);
  return found == nullptr || found->is<None>() ? nullptr : &text(position, name);
}

int64_t ArgumentReader::integer(size_t position, std::string_view name, int64_t fallback) const {
  const Value* found = find(position, name);
  if (found == nullptr || found->is<None>()) return fallback;
  if (!found->is_integral())
    context_.fail(what_ + " has a " + found->type_name() + " for '" + std::string(name) + "', not a number");
  return found->integer();
}

bool ArgumentReader::boolean(size_t position, std::string_view name, bool fallback) const {
  const Value* found = find(position, name);
  return found == nullptr ? fallback : found->truthy();
}

bool has_method(const Value& object, const std::string& name) {
  if (object.text() != nullptr) return among(kStringMethods, name);
  if (object.dict() != nullptr) return among(kDictMethods, name);
  if (object.list() != nullptr) return among(kListMethods, name);
  return object.loop() != nullptr && among(kLoopMethods, name);
}

Value call_method(const Value& object, const std::string& name, const Arguments& arguments, Context& context) {
  context.spend(1);
  const ArgumentReader in(arguments, name + "()", context);
  if (const Text* text = object.text()) return string_method(*text, name, in, context);
  if (const Dict* dict = object.dict()) return dict_method(*dict, name, in, context);
  if (const List* list = object.list()) return list_method(*list, name, in, context);
  return loop_method(*object.loop(), name, arguments, context);
}

bool is_function(std::string_view name) { return among(kFunctions, name); }

Value call_function(const std::string& name, const Arguments& arguments, Context& context) {
  context.spend(1);
  const ArgumentReader in(arguments, name + "()", context);
  if (name == "range") return range(in, context);
  if (name == "strftime_now") return strftime_now(in.text(0, "format"), context);
  if (name == "raise_exception") {
    const Text message = to_text(in.value(0, "message"), context);
    throw Error(Code::invalid_argument,
                "the chat template refuses the conversation: " + replace_invalid_utf8(message.bytes),
                template_place(context.place(), context.line));
  }
  std::vector<std::pair<Value, Value>> items;
  for (const Value& source : arguments.positional) {
    if (source.dict() == nullptr) context.fail(name + "() of a " + source.type_name());
    items.insert(items.end(), source.dict()->items.begin(), source.dict()->items.end());
  }
  for (const auto& [key, value] : arguments.named) items.emplace_back(Value(key), value);
  const Value dict = make_dict(std::move(items), context);
  if (name == "dict") return dict;
  context.namespaces.emplace_back();
  for (const auto& [key, value] : dict.dict()->items) {
    context.namespaces.back().members.emplace_back(to_text(key, context).bytes, value);
  }
  return &context.namespaces.back();
}

}  // namespace weft::jinja
