#include "reference/json_schema.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <regex>
#include <set>
#include <stdexcept>

namespace weft::reference {
namespace {

using Json = nlohmann::json;

bool is_type(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "number") return value.is_number();
  if (type == "integer")
    return value.is_number_integer() || (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  throw std::invalid_argument("type " + type);
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_date(const std::string& text) {
  static const std::regex shape("([0-9]{4})-([0-9]{2})-([0-9]{2})");
  std::smatch parts;
  if (!std::regex_match(text, parts, shape)) return false;
  const int year = std::stoi(parts[1]), month = std::stoi(parts[2]), day = std::stoi(parts[3]);
  const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  const int days[] = {31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1];
}

bool is_time(const std::string& text) {
  static const std::regex shape("([0-9]{2}):([0-9]{2}):([0-9]{2})(\\.[0-9]+)?(Z|[+-]([0-9]{2}):([0-9]{2}))");
  std::smatch parts;
  if (!std::regex_match(text, parts, shape)) return false;
  const bool zone = parts[6].matched ? std::stoi(parts[6]) < 24 && std::stoi(parts[7]) < 60 : true;
  return std::stoi(parts[1]) < 24 && std::stoi(parts[2]) < 60 && std::stoi(parts[3]) < 60 && zone;
}

bool has_format(const std::string& text, const std::string& format) {
  if (format == "date") return is_date(text);
  if (format == "time") return is_time(text);
  if (format == "date-time")
    return text.size() > 11 && text[10] == 'T' && is_date(text.substr(0, 10)) && is_time(text.substr(11));
  if (format == "uuid") return std::regex_match(text, std::regex("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"));
  if (format == "ipv4") {
    std::smatch parts;
    if (!std::regex_match(text, parts,
                          std::regex("(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)")))
      return false;
    return std::all_of(parts.begin() + 1, parts.end(), [](const auto& part) { return std::stoi(part) < 256; });
  }
  throw std::invalid_argument("format " + format);
}

// A URI fragment without its %XX.
std::string unescaped(std::string text) {
  for (size_t at = text.find('%'); at != std::string::npos; at = text.find('%', at + 1)) {
    text.replace(at, 3, 1, static_cast<char>(std::stoi(text.substr(at + 1, 2), nullptr, 16)));
  }
  return text;
}

class Validator {
 public:
  explicit Validator(const Json& root) : root_(root) {}

  std::string check(const Json& value, const Json& schema) {
    if (schema.is_boolean()) return schema.get<bool>() ? "" : "false";
    for (const auto& [key, rule] : schema.items()) {
      std::string fault = keyword(value, schema, key, rule);
      if (!fault.empty()) return key + "(" + fault + ") at " + value.dump().substr(0, 80);
    }
    return "";
  }

 private:
  bool valid(const Json& value, const Json& schema) { return check(value, schema).empty(); }

  std::string keyword(const Json& value, const Json& schema, const std::string& key, const Json& rule) {
    static const std::set<std::string> ignored = {"title",   "description", "default",  "$defs", "definitions",
                                                  "$schema", "$comment",    "examples", "$id"};
    const auto unless = [](bool good) { return good ? "" : "no"; };
    if (ignored.contains(key)) return "";
    if (key == "$ref") return check(value, root_.at(Json::json_pointer(unescaped(rule).substr(1))));
    if (key == "type") {
      if (rule.is_string()) return unless(is_type(value, rule));
      return unless(std::any_of(rule.begin(), rule.end(), [&](const Json& type) { return is_type(value, type); }));
    }
    if (key == "const") return unless(value == rule);
    if (key == "enum") return unless(std::find(rule.begin(), rule.end(), value) != rule.end());
    const auto matching = [&] {
      return std::count_if(rule.begin(), rule.end(), [&](const Json& one) { return valid(value, one); });
    };
    if (key == "anyOf") return unless(matching() > 0);
    if (key == "oneOf") return unless(matching() == 1);
    if (key == "allOf") return unless(matching() == static_cast<std::ptrdiff_t>(rule.size()));
    return key.ends_with("inimum") || key.ends_with("aximum")                                ? number(value, key, rule)
           : key == "minLength" || key == "maxLength" || key == "pattern" || key == "format" ? string(value, key, rule)
           : key == "properties" || key == "required" || key == "additionalProperties"
               ? object(value, schema, key, rule)
               : array(value, schema, key, rule);
  }

  static std::string number(const Json& value, const std::string& key, const Json& rule) {
    if (!value.is_number()) return "";
    const double given = value.get<double>(), bound = rule.get<double>();
    const bool good = key == "minimum"            ? given >= bound
                      : key == "maximum"          ? given <= bound
                      : key == "exclusiveMinimum" ? given > bound
                                                  : given < bound;
    return good ? "" : "no";
  }

  static std::string string(const Json& value, const std::string& key, const Json& rule) {
    if (!value.is_string()) return "";
    const auto text = value.get<std::string>();
    bool good = true;
    if (key == "minLength") good = characters(text) >= rule.get<size_t>();
    if (key == "maxLength") good = characters(text) <= rule.get<size_t>();
    if (key == "pattern") good = std::regex_search(text, std::regex(rule.get<std::string>()));
    if (key == "format") good = has_format(text, rule);
    return good ? "" : "no";
  }

  std::string object(const Json& value, const Json& schema, const std::string& key, const Json& rule) {
    if (!value.is_object()) return "";
    if (key == "required") {
      for (const Json& name : rule) {
        if (!value.contains(name.get<std::string>())) return "no " + name.get<std::string>();
      }
      return "";
    }
    const Json properties = schema.value("properties", Json::object());
    for (const auto& [name, member] : value.items()) {
      if (properties.contains(name) != (key == "properties")) continue;
      std::string fault = check(member, key == "properties" ? rule.at(name) : rule);
      if (!fault.empty()) return name + ": " + fault;
    }
    return "";
  }

  std::string array(const Json& value, const Json& schema, const std::string& key, const Json& rule) {
    if (!value.is_array()) return "";
    if (key == "minItems") return value.size() >= rule.get<size_t>() ? "" : "no";
    if (key == "maxItems") return value.size() <= rule.get<size_t>() ? "" : "no";
    const size_t prefix = schema.value("prefixItems", Json::array()).size();
    if (key == "prefixItems" || key == "items") {
      const bool own = key == "prefixItems";
      for (size_t i = own ? 0 : prefix; i < (own ? std::min(prefix, value.size()) : value.size()); ++i) {
        std::string fault = check(value[i], own ? rule[i] : rule);
        if (!fault.empty()) return fault;
      }
      return "";
    }
    if (key == "uniqueItems") return "";
    throw std::invalid_argument("keyword " + key);
  }

  const Json& root_;
};

}  // namespace

std::string why_invalid(const Json& value, const Json& schema, const Json& root) {
  return Validator(root).check(value, schema);
}

}  // namespace weft::reference
