#include "chat/value_types.h"

#include <string>

#include "base/json_digits.h"

namespace weft {
namespace {

// Bounds what a schema of a tool may cost, whose references can lead in circles.
constexpr int kMaxSchemas = 256;

uint32_t type_of_value(const JsonValue& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_object()) return kObjectType;
  if (value.is_array()) return kArrayType;
  return value.is_number() || long_number(value) ? kNumberType : kTextType;
}

uint32_t named_type(const JsonValue& name) {
  if (!name.is_string()) return kAnyType;
  const std::string& text = name.text();
  if (text == "string") return kTextType;
  if (text == "number" || text == "integer") return kNumberType;
  if (text == "boolean") return kBooleanType;
  if (text == "null") return kNullType;
  if (text == "object") return kObjectType;
  return text == "array" ? kArrayType : kAnyType;
}

// The part of the schema that a reference as "#/$defs/Unit" names. Returns nullptr if the schema has no such part.
const JsonValue* referred(const JsonValue& root, std::string_view reference) {
  if (!reference.starts_with('#')) return nullptr;
  const JsonValue* part = &root;
  reference.remove_prefix(1);
  while (part && reference.starts_with('/')) {
    const size_t end = reference.find('/', 1);
    std::string name(reference.substr(1, end == reference.npos ? end : end - 1));
    for (const auto& [escape, meant] : {std::pair("~1", "/"), std::pair("~0", "~")})  // RFC 6901
      for (size_t at = 0; (at = name.find(escape, at)) != name.npos; ++at) name.replace(at, 2, meant);
    part = part->find(name);
    reference = end == reference.npos ? "" : reference.substr(end);
  }
  return reference.empty() ? part : nullptr;
}

class Types {
 public:
  explicit Types(const JsonValue& root) : root_(root) {}

  uint32_t of(const JsonValue& schema) {
    if (!schema.is_object() || ++seen_ > kMaxSchemas) return kAnyType;
    uint32_t types = kAnyType;
    if (const JsonValue* reference = schema.find("$ref"); reference && reference->is_string()) {
      const JsonValue* target = referred(root_, reference->text());
      types &= target ? of(*target) : kAnyType;
    }
    if (const JsonValue* type = schema.find("type"))
      types &= type->is_array() ? any(*type, named_type) : named_type(*type);
    if (const JsonValue* value = schema.find("const")) types &= type_of_value(*value);
    if (const JsonValue* values = schema.find("enum")) types &= any(*values, type_of_value);
    const auto own = [&](const JsonValue& part) { return of(part); };
    for (const char* const key : {"anyOf", "oneOf"})
      if (const JsonValue* parts = schema.find(key)) types &= any(*parts, own);
    if (const JsonValue* parts = schema.find("allOf"); parts && parts->is_array())
      for (const JsonValue& part : parts->items()) types &= of(part);
    return types;
  }

 private:
  template <class Of>
  static uint32_t any(const JsonValue& parts, const Of& of) {
    if (!parts.is_array()) return kAnyType;
    uint32_t types = 0;
    for (const JsonValue& part : parts.items()) types |= of(part);
    return types;
  }

  const JsonValue& root_;
  int seen_ = 0;
};

}  // namespace

uint32_t value_types(const JsonValue& schema, const JsonValue& root) { return Types(root).of(schema); }

}  // namespace weft
