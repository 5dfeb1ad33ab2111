#include "base/json_object.h"

#include "base/error.h"
#include "base/utf8.h"

namespace weft {

namespace {

constexpr size_t kShown = 60;  // bytes of a value in an error

std::string shown(const JsonValue& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  std::string text = value.dump();
  return text.size() > kShown ? text.substr(0, valid_utf8_prefix(text.substr(0, kShown))) + "..." : text;
}

}  // namespace

JsonObject::JsonObject(const JsonValue& object, std::string place) : object_(&object), place_(std::move(place)) {
  if (!object.is_object() && !object.is_null())
    throw Error(Code::bad_file, "it is " + shown(object) + ", expected a JSON object", place_);
}

JsonObject::JsonObject(const JsonValue& object, std::string place, const JsonValue& defaults)
    : JsonObject(object, std::move(place)) {
  defaults_ = &defaults;
}

bool JsonObject::is_given(const std::string& key) const {
  const JsonValue* value = object_->find(key);
  return value != nullptr && !value->is_null();
}

const JsonValue* JsonObject::find(const std::string& key) const {
  const JsonValue* value = object_->find(key);
  if (value == nullptr && defaults_ != nullptr) value = defaults_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const JsonValue& JsonObject::at(const std::string& key) const {
  const JsonValue* value = find(key);
  if (value == nullptr) throw Error(Code::bad_file, "the value '" + key + "' is missing", place_);
  return *value;
}

std::string JsonObject::either(std::initializer_list<const char*> keys) const {
  for (const char* key : keys)
    if (is_given(key)) return key;
  for (const char* key : keys)
    if (has(key)) return key;
  return *keys.begin();
}

uint32_t JsonObject::integer(const std::string& key, uint32_t least, uint32_t most) const {
  return integer_of(at(key), key, least, most);
}

uint32_t JsonObject::integer(const std::string& key, uint32_t least, uint32_t most, uint32_t fallback) const {
  return has(key) ? integer(key, least, most) : fallback;
}

std::optional<uint32_t> JsonObject::find_integer(const std::string& key) const {
  return has(key) ? std::optional(integer(key, 0, UINT32_MAX)) : std::nullopt;
}

double JsonObject::number(const std::string& key, double least, double most) const {
  const JsonValue& value = at(key);
  if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
    refuse(key, "a number from " + JsonValue(least).dump() + " to " + JsonValue(most).dump());
  return value.get<double>();
}

double JsonObject::number(const std::string& key, double least, double most, double fallback) const {
  return has(key) ? number(key, least, most) : fallback;
}

std::string JsonObject::text(const std::string& key, const std::string& fallback) const {
  return has(key) ? text_of(at(key), key) : fallback;
}

std::optional<std::string> JsonObject::find_text(const std::string& key) const {
  return has(key) ? std::optional(text_of(at(key), key)) : std::nullopt;
}

bool JsonObject::flag(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_boolean()) refuse(key, "true or false");
  return at(key).get<bool>();
}

const JsonValue::Array& JsonObject::array(const std::string& key) const {
  if (!at(key).is_array()) refuse(key, "an array");
  return at(key).items();
}

JsonObject JsonObject::object(const std::string& key) const {
  if (!at(key).is_object()) refuse(key, "an object");
  return {at(key), place_ + ", " + key};
}

const std::string& JsonObject::text_of(const JsonValue& part, const std::string& key) const {
  if (!part.is_string()) refuse(key, "a string", part);
  return part.text();
}

uint32_t JsonObject::integer_of(const JsonValue& part, const std::string& key, uint32_t least, uint32_t most) const {
  const bool whole = part.is_number_integer() && (part.is_number_unsigned() || part.get<int64_t>() >= 0);
  if (!whole || part.get<uint64_t>() < least || part.get<uint64_t>() > most)
    refuse(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most), part);
  return static_cast<uint32_t>(part.get<uint64_t>());
}

void JsonObject::refuse(const std::string& key, const std::string& expected, const JsonValue& found) const {
  throw Error(Code::bad_file, "'" + key + "' is " + shown(found) + ", expected " + expected, place_);
}

void JsonObject::refuse(const std::string& key, const std::string& expected) const { refuse(key, expected, at(key)); }

}  // namespace weft
