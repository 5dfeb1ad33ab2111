// Checked reading of JSON whose shape nobody guarantees: every function says what it wanted and what it found, as
// Error(bad_file).
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"

namespace weft::json_reader {

using Json = nlohmann::json;

// The member called key, or nullptr where object is no object, has no such member, or it is null.
inline const Json* find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

[[noreturn]] inline void refuse(const std::string& what, const char* wanted, const Json& found,
                                const std::string& place) {
  throw Error(Code::bad_file, "'" + what + "' should be " + wanted + " but is a " + found.type_name(), place);
}

inline const std::string& text(const Json& value, const std::string& what, const std::string& place) {
  const auto* string = value.get_ptr<const std::string*>();
  if (string == nullptr) refuse(what, "a string", value, place);
  return *string;
}

inline const Json& array(const Json& value, const std::string& what, const std::string& place) {
  if (!value.is_array()) refuse(what, "an array", value, place);
  return value;
}

inline const Json& object(const Json& value, const std::string& what, const std::string& place) {
  if (!value.is_object()) refuse(what, "an object", value, place);
  return value;
}

inline bool boolean(const Json& value, const std::string& what, const std::string& place) {
  if (!value.is_boolean()) refuse(what, "true or false", value, place);
  return value.get<bool>();
}

// A token id or a count: a whole number from 0 to 2^32 - 1.
inline uint32_t number(const Json& value, const std::string& what, const std::string& place) {
  if (!value.is_number_integer()) refuse(what, "a whole number", value, place);
  const bool negative = !value.is_number_unsigned() && value.get<int64_t>() < 0;
  if (negative || value.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
    throw Error(Code::bad_file, "'" + what + "' is " + value.dump() + ", outside 0 to 4294967295", place);
  }
  return static_cast<uint32_t>(value.get<uint64_t>());
}

inline std::optional<std::string> find_text(const Json& parent, const char* key, const std::string& place) {
  const Json* value = find(parent, key);
  return value == nullptr ? std::nullopt : std::optional(text(*value, key, place));
}

inline bool find_boolean(const Json& parent, const char* key, bool fallback, const std::string& place) {
  const Json* value = find(parent, key);
  return value == nullptr ? fallback : boolean(*value, key, place);
}

inline std::optional<uint32_t> find_number(const Json& parent, const char* key, const std::string& place) {
  const Json* value = find(parent, key);
  return value == nullptr ? std::nullopt : std::optional(number(*value, key, place));
}

}  // namespace weft::json_reader
