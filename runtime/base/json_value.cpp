#include "base/json_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_digits.h"
#include "base/json_events.h"
#include "base/quote.h"

namespace weft {
namespace {

// Text of a scalar. An nlohmann value of a scalar allocates nothing when it is destroyed: it has no children to
// flatten.
template <class T>
std::string scalar_text(const T& value) {
  using nlohmann::json;
  return json(value).dump(-1, ' ', false, json::error_handler_t::replace);
}

constexpr char kLongNumber = '\xff';

class Builder : public JsonEvents {
 public:
  Builder(std::string_view text, const JsonLimits& limits, Code code, const std::string& place,
          std::optional<Digits> digits)
      : text_(text), limits_(limits), code_(code), place_(place), digits_(digits) {}

  JsonValue build() {
    parse(text_, limits_.depth);
    return std::move(root_);
  }

 private:
  void begin(JsonValue value, const std::string& spelling) override {
    if (digits_ && value.is_number_float() &&
        (digits_ == Digits::all || spelling.find_first_not_of("-0123456789") == spelling.npos))
      value = JsonValue(kLongNumber + spelling);
    if (++values_ > limits_.values) fail("the document has more than " + std::to_string(limits_.values) + " values");
    JsonValue* slot = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      slot = parent.is_array() ? &parent.items().emplace_back() : &parent.members().back().value;
    }
    *slot = std::move(value);
    if (slot->is_structured()) open_.push_back(slot);
  }
  void key(std::string& name) override { open_.back()->members().push_back({std::move(name), {}}); }
  void end() override {
    const JsonValue& ended = *open_.back();
    if (ended.is_object()) {
      const std::vector<const JsonValue::Member*> members = ended.by_name();
      const auto same = [](const JsonValue::Member* a, const JsonValue::Member* b) { return a->name == b->name; };
      if (const auto twice = std::ranges::adjacent_find(members, same); twice != members.end())
        fail("key \"" + printable((*twice)->name) + "\" is in one object twice");
    }
    open_.pop_back();
  }
  [[noreturn]] void fail(const std::string& sentence) override { refuse(sentence); }
  [[noreturn]] void malformed(size_t byte, const std::string& reason) override {
    const auto before = text_.substr(0, byte == 0 ? 0 : byte - 1);
    const auto line_number = 1 + std::count(before.begin(), before.end(), '\n');
    refuse("line " + std::to_string(line_number) + ", byte " + std::to_string(byte) +
           ": this is no valid JSON: " + printable(reason));
  }
  // Not virtual: gcc 12 with -fsanitize=thread takes a call of a virtual function for one that returns.
  [[noreturn]] void refuse(const std::string& sentence) const { throw Error(code_, sentence, place_); }

  std::string_view text_;
  const JsonLimits& limits_;
  Code code_;
  const std::string& place_;
  const std::optional<Digits> digits_;
  JsonValue root_;
  std::vector<JsonValue*>
      open_;  // the arrays and objects around the next value; none of them moves while a later one is open
  uint64_t values_ = 0;
};

}  // namespace

static_assert(std::is_nothrow_move_constructible_v<JsonValue>);  // else a growing array would copy

// Not the variant's own copying: in libstdc++ 12 a variant that holds a string or vector takes itself for one that is
// never without a value, and its copy constructor, when it runs out of memory, destroys what is not there yet.
JsonValue::JsonValue(const JsonValue& other) {
  std::visit(
      [&](const auto& value) {
        auto copy = value;
        value_ = std::move(copy);
      },
      other.value_);
}

JsonValue JsonValue::object() {
  JsonValue made;
  made.value_ = Object();
  return made;
}

JsonValue::JsonValue(std::initializer_list<JsonValue> parts) {
  const auto is_member = [](const JsonValue& part) {
    return part.is_array() && part.size() == 2 && part[0].is_string();
  };
  if (!std::ranges::all_of(parts, is_member)) {
    value_ = Array(parts);
    return;
  }
  Object& members = value_.emplace<Object>();
  for (const JsonValue& part : parts) members.push_back({part[0].text(), part[1]});
}

void JsonValue::refuse() { throw Error(Code::internal, "a JSON value is not what it is taken for"); }

std::vector<const JsonValue::Member*> JsonValue::by_name() const {
  std::vector<const Member*> sorted;
  sorted.reserve(members().size());
  for (const Member& member : members()) sorted.push_back(&member);
  std::ranges::sort(sorted, {}, [](const Member* member) -> const std::string& { return member->name; });
  return sorted;
}

size_t JsonValue::size() const {
  if (is_array()) return items().size();
  if (is_object()) return members().size();
  return is_null() ? 0 : 1;
}

const JsonValue* JsonValue::find(std::string_view name) const {
  if (!is_object()) return nullptr;
  const auto found = std::ranges::find(members(), name, &Member::name);
  return found == members().end() ? nullptr : &found->value;
}

const JsonValue& JsonValue::operator[](std::string_view name) const {
  if (const JsonValue* value = find(name)) return *value;
  refuse();
}

JsonValue& JsonValue::operator[](std::string_view name) {
  if (is_null()) value_ = Object();
  if (const JsonValue* value = find(name)) return const_cast<JsonValue&>(*value);
  return members().emplace_back(Member{std::string(name), {}}).value;
}

void JsonValue::update(JsonValue other) {
  for (Member& member : other.members()) (*this)[member.name] = std::move(member.value);
}

bool JsonValue::erase(std::string_view name) {
  return std::erase_if(members(), [&](const Member& member) { return member.name == name; }) > 0;
}

void JsonValue::push_back(JsonValue item) {
  if (is_null()) value_ = Array();
  items().push_back(std::move(item));
}

void JsonValue::append(std::string& text) const {
  if (is_array()) {
    text += '[';
    for (size_t i = 0; i < size(); ++i) {
      if (i > 0) text += ',';
      items()[i].append(text);
    }
    text += ']';
  } else if (is_object()) {
    text += '{';
    for (const Member* member : by_name()) {
      if (text.back() != '{') text += ',';
      text += scalar_text(member->name) + ':';
      member->value.append(text);
    }
    text += '}';
  } else {
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::same_as<T, std::monostate>)
            text += "null";
          else if constexpr (!std::same_as<T, Array> && !std::same_as<T, Object>)
            text += scalar_text(value);
        },
        value_);
  }
}

std::string JsonValue::dump() const {
  std::string text;
  append(text);
  return text;
}

bool JsonValue::operator==(const JsonValue& other) const { return value_ == other.value_; }

static JsonValue parse(std::string_view text, const JsonLimits& limits, Code code, const std::string& place,
                       std::optional<Digits> digits) {
  if (text.size() > limits.bytes) {
    throw Error(code,
                "the JSON text has " + std::to_string(text.size()) + " bytes; Weft reads at most " +
                    std::to_string(limits.bytes),
                place);
  }
  return Builder(text, limits, code, place, digits).build();
}

JsonValue parse_json(std::string_view text, const JsonLimits& limits, Code code, const std::string& place) {
  return parse(text, limits, code, place, std::nullopt);
}

JsonValue parse_json_digits(std::string_view text, const JsonLimits& limits, Code code, const std::string& place,
                            Digits digits) {
  return parse(text, limits, code, place, digits);
}

std::optional<std::string_view> long_number(const JsonValue& value) {
  if (!value.is_string() || !value.text().starts_with(kLongNumber)) return std::nullopt;
  return std::string_view(value.text()).substr(1);
}

std::string dump_digits(const JsonValue& value) {
  if (const auto digits = long_number(value)) return std::string(*digits);
  if (!value.is_structured()) return value.dump();
  std::string text;
  if (value.is_array()) {
    for (const JsonValue& item : value.items()) text += (text.empty() ? "" : ",") + dump_digits(item);
    return '[' + text + ']';
  }
  for (const JsonValue::Member& member : value.members())
    text += (text.empty() ? "" : ",") + JsonValue(member.name).dump() + ':' + dump_digits(member.value);
  return '{' + text + '}';
}

}  // namespace weft
