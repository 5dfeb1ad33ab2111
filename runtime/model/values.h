// Checked access to one JSON object's values; errors name the file and the key. Not for other modules.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace weft {

class Values {
 public:
  using json = nlohmann::json;
  Values(const json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object_.is_object()) throw Error(Code::bad_file, "the model's description is no JSON object", place_);
  }

  bool has(const std::string& key) const { return object_.contains(key) && !object_.at(key).is_null(); }
  const json& raw(const std::string& key) const { return object_.at(key); }
  const std::string& place() const { return place_; }
  // The first of the keys that is there; the first of all if none is.
  std::string either(std::initializer_list<const char*> keys) const {
    for (const char* key : keys)
      if (has(key)) return key;
    return *keys.begin();
  }

  uint32_t integer(const std::string& key, uint32_t least, uint32_t most) const {
    const json& value = need(key);
    const bool whole = value.is_number_integer() && (value.is_number_unsigned() || value.get<int64_t>() >= 0);
    if (!whole || value.get<uint64_t>() < least || value.get<uint64_t>() > most)
      refuse(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<uint32_t>(value.get<uint64_t>());
  }
  uint32_t integer(const std::string& key, uint32_t least, uint32_t most, uint32_t fallback) const {
    return has(key) ? integer(key, least, most) : fallback;
  }
  double number(const std::string& key, double least, double most) const {
    const json& value = need(key);
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
      refuse(key, "a number from " + json(least).dump() + " to " + json(most).dump());
    return value.get<double>();
  }
  double number(const std::string& key, double least, double most, double fallback) const {
    return has(key) ? number(key, least, most) : fallback;
  }
  float real(const std::string& key, double least, double most, double fallback) const {
    return static_cast<float>(number(key, least, most, fallback));
  }
  std::string text(const std::string& key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    if (!object_.at(key).is_string()) refuse(key, "a text");
    return object_.at(key).get<std::string>();
  }
  bool flag(const std::string& key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!object_.at(key).is_boolean()) refuse(key, "true or false");
    return object_.at(key).get<bool>();
  }
  Values object(const std::string& key) const { return Values(need(key), place_ + ", " + key); }

  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const {
    std::string shown = object_.at(key).dump(-1, ' ', false, json::error_handler_t::replace);
    if (shown.size() > 60) shown = shown.substr(0, 60) + "...";
    throw Error(Code::bad_file, "'" + key + "' is " + shown + ", expected " + expected, place_);
  }

 private:
  const json& need(const std::string& key) const {
    if (!has(key)) throw Error(Code::bad_file, "the value '" + key + "' is missing", place_);
    return object_.at(key);
  }
  const json& object_;
  std::string place_;
};

}  // namespace weft
