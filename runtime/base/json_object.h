// Checked reading of a JSON object that nobody vouches for. Errors are Error(bad_file) and name the place (the file),
// the key, what was expected and what was found.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/json_value.h"

namespace weft {

// Refers to the object, which must outlive it. A value that is null counts as missing.
class JsonObject {
 public:
  // object: an object, or null, which has no values. Throws for anything else.
  JsonObject(const JsonValue& object, std::string place);
  // The same with values for keys that the object does not have. A null of the object itself stays missing. defaults:
  // an object, which must outlive this one.
  JsonObject(const JsonValue& object, std::string place, const JsonValue& defaults);

  const std::string& place() const { return place_; }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  // True if the object itself has a value, not only the defaults.
  bool is_given(const std::string& key) const;
  // nullptr if the value is missing.
  const JsonValue* find(const std::string& key) const;
  // Throws if the value is missing.
  const JsonValue& at(const std::string& key) const;
  // The first of the keys that the object itself has, else the first with a default; the first of all if none has.
  std::string either(std::initializer_list<const char*> keys) const;

  // Each throws for a value of another type or outside the range, and without a fallback for a missing one.
  uint32_t integer(const std::string& key, uint32_t least, uint32_t most) const;
  uint32_t integer(const std::string& key, uint32_t least, uint32_t most, uint32_t fallback) const;
  std::optional<uint32_t> find_integer(const std::string& key) const;
  double number(const std::string& key, double least, double most) const;
  double number(const std::string& key, double least, double most, double fallback) const;
  float real(const std::string& key, double least, double most, double fallback) const {
    return static_cast<float>(number(key, least, most, fallback));
  }
  std::string text(const std::string& key, const std::string& fallback) const;
  std::optional<std::string> find_text(const std::string& key) const;
  bool flag(const std::string& key, bool fallback) const;
  const JsonValue::Array& array(const std::string& key) const;
  // The place of what it returns also names the key.
  JsonObject object(const std::string& key) const;

  // The same checks for a part of the value of a key: an item of an array.
  const std::string& text_of(const JsonValue& part, const std::string& key) const;
  uint32_t integer_of(const JsonValue& part, const std::string& key, uint32_t least, uint32_t most) const;

  // found: the value of the key, or the part of it, that is not as expected.
  [[noreturn]] void refuse(const std::string& key, const std::string& expected, const JsonValue& found) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;

 private:
  const JsonValue* object_;
  const JsonValue* defaults_ = nullptr;
  std::string place_;
};

}  // namespace weft
