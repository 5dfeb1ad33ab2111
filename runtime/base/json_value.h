// A JSON value. Unlike nlohmann's, whose destructor allocates and ends the process where that fails, it needs no memory
// to be destroyed. Only base/json_value.cpp and base/json_events.cpp use nlohmann's library.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace weft {

// A template, so that it is complete where JsonValue's functions in its class need it.
template <class Value>
struct JsonMember {
  std::string name;
  Value value;

  bool operator==(const JsonMember& other) const = default;
};

// Destroyed by recursion: as deep as the value, which parse_json bounds.
class JsonValue {
 public:
  using Member = JsonMember<JsonValue>;
  using Array = std::vector<JsonValue>;
  using Object = std::vector<Member>;  // in the order of the text, names only once

  JsonValue(std::nullptr_t = nullptr) {}
  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&&) noexcept = default;
  JsonValue& operator=(const JsonValue& other) { return *this = JsonValue(other); }
  JsonValue& operator=(JsonValue&&) noexcept = default;
  JsonValue(bool value) : value_(value) {}
  template <std::integral T>
  JsonValue(T value) : value_(static_cast<uint64_t>(value)) {
    if constexpr (std::is_signed_v<T>)  // each whole number has one form
      if (value < 0) value_ = static_cast<int64_t>(value);
  }
  JsonValue(double value) : value_(value) {}
  JsonValue(float value) : value_(double{value}) {}
  JsonValue(std::string text) : value_(std::move(text)) {}
  JsonValue(std::string_view text) : value_(std::string(text)) {}
  JsonValue(const char* text) : value_(std::string(text)) {}
  JsonValue(const void*) = delete;
  JsonValue(Array items) : value_(std::move(items)) {}
  template <class T>
  JsonValue(const std::vector<T>& items) : value_(Array(items.begin(), items.end())) {}
  // An object if each part is a pair of a string and something, else an array.
  JsonValue(std::initializer_list<JsonValue> parts);
  static JsonValue array() { return Array(); }
  static JsonValue object();

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_structured() const { return is_array() || is_object(); }
  bool is_number_unsigned() const { return std::holds_alternative<uint64_t>(value_); }
  bool is_number_integer() const { return is_number_unsigned() || std::holds_alternative<int64_t>(value_); }
  bool is_number_float() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_number_integer() || is_number_float(); }

  // The value as T: bool, or a number, converted as C++ does. Throws Error(internal) if it is none.
  template <class T>
  T get() const;
  // Each throws Error(internal) if the value is something else.
  const std::string& text() const { return part<std::string>(); }
  std::string& text() { return part<std::string>(); }
  const Array& items() const { return part<Array>(); }
  Array& items() { return part<Array>(); }
  const Object& members() const { return part<Object>(); }
  Object& members() { return part<Object>(); }
  // The members in the order of their names.
  std::vector<const Member*> by_name() const;

  // Number of items or members of an array or object; 0 for null, 1 for other values.
  size_t size() const;
  bool empty() const { return size() == 0; }
  const JsonValue& operator[](size_t index) const { return items().at(index); }
  JsonValue& operator[](size_t index) { return items().at(index); }
  // The member with this name; nullptr if it is missing, or if this is not an object. Takes time in proportion to the
  // number of members.
  const JsonValue* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  // The same; throws Error(internal) instead of returning nullptr.
  const JsonValue& operator[](std::string_view name) const;
  // The member with this name; adds it if it is missing. null becomes an object.
  JsonValue& operator[](std::string_view name);
  // Adds or replaces each member of `other`.
  void update(JsonValue other);
  // Removes the member with this name. Returns false if it was missing.
  bool erase(std::string_view name);
  // null becomes an array.
  void push_back(JsonValue item);

  // In one line, with members in the order of their names; bytes that are no UTF-8 become U+FFFD.
  std::string dump() const;

  bool operator==(const JsonValue& other) const;

 private:
  [[noreturn]] static void refuse();
  void append(std::string& text) const;
  template <class T>
  const T& part() const {
    if (const T* value = std::get_if<T>(&value_)) return *value;
    refuse();
  }
  template <class T>
  T& part() {
    return const_cast<T&>(std::as_const(*this).part<T>());
  }

  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

template <class T>
T JsonValue::get() const {
  if constexpr (std::same_as<T, bool>) {
    return part<bool>();
  } else {
    if (is_number_float()) return static_cast<T>(part<double>());
    return is_number_unsigned() ? static_cast<T>(part<uint64_t>()) : static_cast<T>(part<int64_t>());
  }
}

struct JsonLimits {
  uint64_t bytes, values;
  size_t depth;  // of arrays and objects
};

// Parses one JSON document (RFC 8259, UTF-8), stricter than most readers in one thing: a key may be in an object only
// once. Throws Error(code) with this place; where the text itself is wrong the sentence names line and byte.
JsonValue parse_json(std::string_view text, const JsonLimits& limits, Code code, const std::string& place);

}  // namespace weft
