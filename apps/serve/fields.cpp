#include "fields.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "../weft/common.h"
#include "base/number.h"

namespace weft::serve {

bool is_utf8(const std::string& bytes) {
  const auto* at = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  for (auto left = static_cast<utf8proc_ssize_t>(bytes.size()); left > 0;) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(at, left, &character);
    if (length <= 0) return false;
    at += length;
    left -= length;
  }
  return true;
}

Json RequestError::json() const {
  Json error = {{"message", what()}, {"type", type_}, {"param", nullptr}, {"code", nullptr}};
  if (!field_.empty()) error["param"] = field_;
  if (!code_.empty()) error["code"] = code_;
  return {{"error", error}};
}

RequestError bad_field(const std::string& field, const std::string& message, const std::string& code) {
  return RequestError(400, "invalid_request_error", code, message, field);
}

namespace {

RequestError refused_body(const std::string& message) {
  return RequestError(400, "invalid_request_error", "invalid_json", message);
}

// The index of the quote that ends the string which begins at `at`.
std::size_t end_of_string(const std::string& body, std::size_t at) {
  for (++at; at < body.size() && body[at] != '"'; ++at)
    if (body[at] == '\\') ++at;
  return at;
}

// Bounds the time and the memory of parsing before it begins. Deep values overflow the stack of recursive readers,
// names of an object are compared one by one, and an empty array takes 50 times its two bytes.
void check_costs(const std::string& body) {
  std::array<std::size_t, kMostDepth> fields;  // of the objects around the present place
  std::size_t depth = 0, values = 1, nodes = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    switch (body[i]) {
      case '"':
        i = end_of_string(body, i);
        break;
      case '{':
      case '[':
        if (depth == kMostDepth)
          throw refused_body(cli::format("The body is nested more than %zu levels deep.", kMostDepth));
        fields[depth++] = 0;
        ++nodes;
        break;
      case '}':
      case ']':
        depth -= depth > 0;
        break;
      case ':':
        ++nodes;
        if (depth > 0 && ++fields[depth - 1] > kMostFields)
          throw refused_body(cli::format("The body has an object with more than %zu fields.", kMostFields));
        break;
      case ',':
        ++values;
        break;
      default:
        break;
    }
  }
  if (values > kMostValues || nodes > kMostNodes)
    throw refused_body(cli::format("The body has more than %zu values, or more than %zu objects, arrays and fields.",
                                   kMostValues, kMostNodes));
}

// Value of a number of JSON: its digits from the first to the last that is not 0, and the power of ten of the last.
struct Decimal {
  std::string digits;
  long exponent = 0;
  bool operator==(const Decimal&) const = default;
};

Decimal decimal_of(const std::string& spelling) {
  Decimal decimal;
  const std::size_t mark = std::min(spelling.find_first_of("eE"), spelling.size());
  bool fraction = false;
  for (const char c : spelling.substr(0, mark)) {
    if (c == '.') fraction = true;
    if (c < '0' || c > '9') continue;
    decimal.digits += c;
    decimal.exponent -= fraction;
  }
  const std::size_t last = decimal.digits.find_last_not_of('0');
  if (last == std::string::npos) return {};
  decimal.exponent += static_cast<long>(decimal.digits.size() - last - 1);
  decimal.digits = decimal.digits.substr(0, last + 1).substr(decimal.digits.find_first_not_of('0'));
  constexpr long kMost = 1000000000;
  if (mark < spelling.size())
    decimal.exponent += std::clamp(std::strtol(spelling.c_str() + mark + 1, nullptr, 10), -kMost, kMost);
  return decimal;
}

// Numbers that a double or 64 bits would change, such as 18446744073709551616, 9007199254740993.0 and 1e23, become
// binary values with their spelling, which bytes_of() writes.
class BodyReader : public nlohmann::detail::json_sax_dom_parser<Json> {
 public:
  using json_sax_dom_parser::json_sax_dom_parser;
  bool number_float(double value, const std::string& spelling) {
    const bool whole = spelling.find_first_not_of("-0123456789") == spelling.npos;
    if (!whole && decimal_of(Json(value).dump()) == decimal_of(spelling))
      return json_sax_dom_parser::number_float(value, spelling);
    Json::binary_t digits(std::vector<std::uint8_t>(spelling.begin(), spelling.end()));
    return binary(digits);
  }
};

// True for such a number, and for what has one within.
bool has_digits(const Json& json) {
  return json.is_binary() || (json.is_structured() && std::ranges::any_of(json, has_digits));
}

}  // namespace

std::string bytes_of(const Json& json) {
  if (json.is_binary()) return {json.get_binary().begin(), json.get_binary().end()};  // of parse_body()
  if (!has_digits(json)) return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text;
  for (const auto& [name, value] : json.items())
    text +=
        (text.empty() ? "" : ",") + (json.is_object() ? bytes_of(Json(name)) + ":" : std::string()) + bytes_of(value);
  return json.is_object() ? "{" + text + "}" : "[" + text + "]";
}

Json parse_body(const std::string& body) {
  check_costs(body);
  Json json;
  try {
    BodyReader reader(json);
    Json::sax_parse(body, &reader);
  } catch (const nlohmann::json::parse_error& error) {
    throw refused_body(cli::format("The body is not JSON in UTF-8: there is an error at byte %zu.", error.byte));
  } catch (const nlohmann::json::exception&) {
    throw refused_body("The body has a number that is too large.");
  }
  if (!json.is_object()) throw refused_body("The body is not a JSON object.");
  return json;
}

std::string text_of(const Json& value, const std::string& path) {
  if (!value.is_string()) throw bad_field(path, path + " must be a string.", "invalid_type");
  const auto& text = value.get_ref<const std::string&>();
  if (text.find('\0') != text.npos) throw bad_field(path, path + " has a zero character.");
  return text;
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) throw bad_field(path_, path_ + " must be an object.", "invalid_type");
}

const Json* Fields::take(const std::string& name) {
  taken_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::need(const std::string& name) {
  const Json* value = take(name);
  if (!value) throw bad_field(path(name), path(name) + " is required.", "missing_required_parameter");
  return *value;
}

std::optional<bool> Fields::boolean(const std::string& name) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw bad_field(path(name), path(name) + " must be true or false.", "invalid_type");
  return value->get<bool>();
}

std::optional<double> Fields::number(const std::string& name, double least, double most) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  if (!value->is_number() && !value->is_binary())
    throw bad_field(path(name), path(name) + " must be a number.", "invalid_type");
  const double number = value->is_binary() ? parse_double(bytes_of(*value)).value_or(NAN) : value->get<double>();
  if (!(number >= least && number <= most))
    throw bad_field(path(name), cli::format("%s must be from %g to %g.", path(name).c_str(), least, most));
  return number;
}

std::optional<std::int64_t> Fields::whole(const std::string& name, std::int64_t least, std::int64_t most) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  if (!value->is_number_integer()) throw bad_field(path(name), path(name) + " must be a whole number.", "invalid_type");
  const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > std::uint64_t{INT64_MAX};
  if (huge || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most)
    throw bad_field(path(name),
                    path(name) + " must be from " + std::to_string(least) + " to " + std::to_string(most) + ".");
  return value->get<std::int64_t>();
}

std::optional<std::string> Fields::text(const std::string& name) {
  const Json* value = take(name);
  if (!value) return std::nullopt;
  return text_of(*value, path(name));
}

void Fields::ignore(std::initializer_list<const char*> names) { taken_.insert(names.begin(), names.end()); }

void Fields::only(const std::string& name, const Json& neutral) {
  const Json* value = take(name);
  if (value && *value != neutral)
    throw bad_field(path(name), path(name) + " is supported as " + neutral.dump() + " only.", "unsupported_parameter");
}

void Fields::refuse_rest() const {
  for (const auto& [name, value] : object_.items())
    if (!taken_.contains(name) && !value.is_null())
      throw bad_field(path(name), path(name) + " is not supported.", "unsupported_parameter");
}

}  // namespace weft::serve
