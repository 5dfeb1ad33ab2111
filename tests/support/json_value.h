// Lets nlohmann's values become JsonValues and JsonValues nlohmann's, which tests write documents with.
#pragma once

#include <nlohmann/json.hpp>

#include "base/json_value.h"

template <>
struct nlohmann::adl_serializer<weft::JsonValue> {
  template <class Json>
  static void from_json(const Json& from, weft::JsonValue& to) {
    if (from.is_array()) {
      to = weft::JsonValue::array();
      for (const auto& item : from) to.push_back(item.template get<weft::JsonValue>());
    } else if (from.is_object()) {
      to = weft::JsonValue::object();
      for (const auto& [name, value] : from.items())
        to.members().push_back({name, value.template get<weft::JsonValue>()});
    } else if (from.is_string()) {
      to = from.template get_ref<const std::string&>();
    } else if (from.is_number_float()) {
      to = from.template get<double>();
    } else if (from.is_number_unsigned()) {
      to = from.template get<uint64_t>();
    } else if (from.is_number()) {
      to = from.template get<int64_t>();
    } else if (from.is_boolean()) {
      to = from.template get<bool>();
    } else {
      to = nullptr;
    }
  }
  template <class Json>
  static void to_json(Json& to, const weft::JsonValue& from) {
    if (from.is_array()) {
      to = Json::array();
      for (const weft::JsonValue& item : from.items()) to.push_back(Json(item));
    } else if (from.is_object()) {
      to = Json::object();
      for (const auto& [name, value] : from.members()) to[name] = Json(value);
    } else if (from.is_string()) {
      to = from.text();
    } else if (from.is_number_float()) {
      to = from.get<double>();
    } else if (from.is_number_unsigned()) {
      to = from.get<uint64_t>();
    } else if (from.is_number()) {
      to = from.get<int64_t>();
    } else if (from.is_boolean()) {
      to = from.get<bool>();
    } else {
      to = nullptr;
    }
  }
};
