#include "grammar/json_schema_document.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "grammar/decimal_ranges.h"

namespace weft {
namespace {

using Type = JsonTree::Type;

struct Keyword {
  std::string_view name;
  uint32_t types;  // of the values it speaks of; 0 for all
};

constexpr std::array kKeywords = {
    Keyword{"type", 0},
    Keyword{"enum", 0},
    Keyword{"const", 0},
    Keyword{"anyOf", 0},
    Keyword{"oneOf", 0},
    Keyword{"allOf", 0},
    Keyword{"$ref", 0},
    Keyword{"properties", kJsonObject},
    Keyword{"required", kJsonObject},
    Keyword{"additionalProperties", kJsonObject},
    Keyword{"items", kJsonArray},
    Keyword{"prefixItems", kJsonArray},
    Keyword{"minItems", kJsonArray},
    Keyword{"maxItems", kJsonArray},
    Keyword{"uniqueItems", kJsonArray},
    Keyword{"minLength", kJsonString},
    Keyword{"maxLength", kJsonString},
    Keyword{"pattern", kJsonString},
    Keyword{"format", kJsonString},
    Keyword{"minimum", kJsonNumber},
    Keyword{"maximum", kJsonNumber},
    Keyword{"exclusiveMinimum", kJsonNumber},
    Keyword{"exclusiveMaximum", kJsonNumber},
    Keyword{"multipleOf", kJsonNumber},
};

constexpr std::array<std::string_view, 12> kAnnotations = {
    "title",     "description",      "default",         "examples", "deprecated", "readOnly",
    "writeOnly", "contentMediaType", "contentEncoding", "$comment", "$defs",      "definitions"};

bool is_annotation(const JsonSchemaPart& part, std::string_view key) {
  if (key == "$schema" || key == "$id") return part.pointer == "#";
  return std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end();
}

const Keyword* find_keyword(std::string_view name) {
  const auto it = std::find_if(kKeywords.begin(), kKeywords.end(), [&](const Keyword& k) { return k.name == name; });
  return it == kKeywords.end() ? nullptr : &*it;
}

std::optional<uint32_t> type_by_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, uint32_t>, 7> kNames = {{{"null", kJsonNull},
                                                                            {"boolean", kJsonBoolean},
                                                                            {"integer", kJsonInteger},
                                                                            {"number", kJsonNumber},
                                                                            {"string", kJsonString},
                                                                            {"array", kJsonArray},
                                                                            {"object", kJsonObject}}};
  for (const auto& [known, types] : kNames) {
    if (known == name) return types;
  }
  return std::nullopt;
}

// A name as part of a JSON pointer (RFC 6901).
std::string pointer_part(std::string_view name) {
  std::string out = "/";
  for (const char c : name) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

// %XX as the character it stands for (RFC 3986); what is no such escape stays.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
    out += escape ? static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2])) : text[i];
    if (escape) i += 2;
  }
  return out;
}

constexpr int kMaxChain = 64;             // of references
constexpr size_t kMaxAlternatives = 256;  // whose types are told from one another

// The keyword of a schema that is a list of alternatives.
std::optional<std::string_view> alternatives_of(const JsonSchemaPart& part) {
  for (const std::string_view key : {"anyOf", "oneOf", "allOf"}) {
    if (part.tree->find(key) != nullptr) return key;
  }
  return std::nullopt;
}

}  // namespace

uint32_t json_type(const JsonTree& value) {
  constexpr std::array<uint32_t, 7> kTypes = {kJsonNull,   kJsonBoolean, kJsonInteger, kJsonFraction,
                                              kJsonString, kJsonArray,   kJsonObject};
  if (!value.is(Type::number)) return kTypes[static_cast<size_t>(value.type)];
  return parse_decimal(value.text).is_whole() ? kJsonInteger : kJsonFraction;
}

JsonSchemaPart JsonSchemaPart::at(std::string_view key) const { return {tree->find(key), pointer + pointer_part(key)}; }

JsonSchemaPart JsonSchemaPart::at(std::string_view key, std::string_view name) const { return at(key).at(name); }

JsonSchemaPart JsonSchemaPart::at(std::string_view key, size_t index) const {
  return {&tree->find(key)->items[index], pointer + pointer_part(key) + "/" + std::to_string(index)};
}

JsonSchemaDocument::JsonSchemaDocument(std::string_view text, std::string place)
    : place_(std::move(place)), root_(parse_json_tree(text, place_)) {}

void JsonSchemaDocument::fail(const JsonSchemaPart& part, const JsonTree& tree, const std::string& sentence,
                              const std::string& hint, Code code) const {
  throw Error(code, replace_invalid_utf8(part.pointer) + ": " + sentence, place_of(tree), hint);
}

void JsonSchemaDocument::check_keywords(const JsonSchemaPart& part) const {
  if (!part.tree->is(Type::object)) {
    fail(part, *part.tree, "a schema should be an object, true or false, but is " + type_name(part.tree->type));
  }
  for (const auto& [key, value] : part.tree->members) {
    if (is_annotation(part, key) || find_keyword(key) != nullptr) continue;
    fail(part, value, "keyword " + in_quotes(key) + " is not supported", {}, Code::unsupported);
  }
  if (const JsonTree* unique = find(part, "uniqueItems", Type::boolean); unique != nullptr && unique->text == "true") {
    fail(part, *unique, "keyword 'uniqueItems' is not supported", "a grammar cannot compare items", Code::unsupported);
  }
}

void JsonSchemaDocument::check_alone(const JsonSchemaPart& part, std::string_view keyword,
                                     std::initializer_list<std::string_view> allowed) const {
  for (const auto& [key, value] : part.tree->members) {
    if (key == keyword || is_annotation(part, key)) continue;
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    fail(part, value, "keyword " + in_quotes(key) + " beside " + in_quotes(keyword) + " is not supported", {},
         Code::unsupported);
  }
}

const JsonTree* JsonSchemaDocument::find(const JsonSchemaPart& part, std::string_view key, Type type) const {
  const JsonTree* value = part.tree->find(key);
  if (value != nullptr && !value->is(type)) {
    fail(part, *value, in_quotes(key) + " should be " + type_name(type) + " but is " + type_name(value->type));
  }
  return value;
}

std::optional<uint32_t> JsonSchemaDocument::find_count(const JsonSchemaPart& part, std::string_view key) const {
  const JsonTree* value = part.tree->find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is(Type::integer) || value->text.starts_with('-')) {
    fail(part, *value,
         in_quotes(key) + " should be a whole number from 0 but is " +
             (value->text.empty() ? type_name(value->type) : in_quotes(value->text)));
  }
  constexpr uint64_t kMost = UINT32_MAX - 1;
  uint64_t count = 0;
  for (const char c : value->text) count = std::min(count * 10 + static_cast<uint64_t>(c - '0'), kMost);
  return static_cast<uint32_t>(count);
}

const JsonTree& JsonSchemaDocument::list(const JsonSchemaPart& part, std::string_view key) const {
  const JsonTree& value = *find(part, key, Type::array);
  if (value.items.empty()) fail(part, value, in_quotes(key) + " has no elements");
  return value;
}

JsonSchemaPart JsonSchemaDocument::resolve(const JsonSchemaPart& part) const {
  const JsonTree& reference = *find(part, "$ref", Type::string);
  const auto refuse = [&](const std::string& reason) {
    fail(part, reference, "$ref " + in_quotes(reference.text) + " " + reason);
  };
  if (!reference.text.starts_with("#") || (reference.text.size() > 1 && reference.text[1] != '/')) {
    fail(part, reference, "$ref " + in_quotes(reference.text) + " is not supported",
         "references begin with '#/' and stay within the file", Code::unsupported);
  }
  JsonSchemaPart found = root();
  const std::string decoded = percent_decoded(std::string_view(reference.text).substr(1));
  for (std::string_view rest = decoded; !rest.empty();) {
    rest.remove_prefix(1);  // a slash
    const std::string_view raw = rest.substr(0, rest.find('/'));
    rest.remove_prefix(raw.size());
    std::string name;
    for (size_t i = 0; i < raw.size(); ++i) {
      const bool escape = raw[i] == '~' && i + 1 < raw.size() && (raw[i + 1] == '0' || raw[i + 1] == '1');
      name += !escape ? raw[i] : raw[++i] == '0' ? '~' : '/';
    }
    const JsonTree* next = found.tree->find(name);
    if (found.tree->is(Type::array)) {
      size_t index = 0;
      for (const char c : name)
        index =
            c >= '0' && c <= '9' && index < SIZE_MAX / 16 ? index * 10 + static_cast<size_t>(c - '0') : SIZE_MAX / 16;
      if (!name.empty() && index < found.tree->items.size()) next = &found.tree->items[index];
    }
    if (next == nullptr)
      refuse("refers to nothing: there is no " + in_quotes(name) + " in " + in_quotes(found.pointer));
    found = {next, found.pointer + pointer_part(name)};
  }
  return found;
}

uint32_t JsonSchemaDocument::types(const JsonSchemaPart& part) const {
  uint32_t types = 0;
  const JsonTree* type = part.tree->find("type");
  if (type == nullptr) {
    for (const auto& member : part.tree->members) {
      const Keyword* keyword = find_keyword(member.key);
      if (keyword != nullptr) types |= keyword->types;
    }
    return types == 0 ? kJsonAny : types;
  }
  const auto add = [&](const JsonTree& name) {
    const auto one = name.is(Type::string) ? type_by_name(name.text) : std::nullopt;
    if (!one)
      fail(part, name,
           "'type' should name types, and " + (name.text.empty() ? type_name(name.type) : in_quotes(name.text)) +
               " is none");
    types |= *one;
  };
  if (type->is(Type::array)) {
    for (const JsonTree& name : list(part, "type").items) add(name);
  } else {
    add(*type);
  }
  return types;
}

// ---- What excludes what ----

JsonSchemaPart JsonSchemaDocument::follow(JsonSchemaPart part) const {
  for (int i = 0; i < kMaxChain && part.tree->find("$ref") != nullptr; ++i) part = resolve(part);
  return part;
}

uint32_t JsonSchemaDocument::value_types(const JsonSchemaPart& given, bool strict) const {
  std::set<const JsonTree*> seen;
  std::vector<JsonSchemaPart> waiting = {given};  // references may lead through any number of alternatives
  uint32_t types = 0;
  while (!waiting.empty()) {
    const JsonSchemaPart part = follow(std::move(waiting.back()));
    waiting.pop_back();
    if (!part.tree->is(Type::object) || part.tree->find("$ref") != nullptr) return kJsonAny;
    if (!seen.insert(part.tree).second) continue;
    if (seen.size() > kMaxAlternatives) return kJsonAny;
    if (const JsonTree* one = part.tree->find("const")) {
      types |= json_type(*one);
    } else if (part.tree->find("enum") != nullptr) {
      for (const JsonTree& value : list(part, "enum").items) types |= json_type(value);
    } else if (const auto key = alternatives_of(part)) {
      const size_t count = list(part, *key).items.size();
      for (size_t i = 0; i < count; ++i) waiting.push_back(part.at(*key, i));
    } else {
      types |= strict && part.tree->find("type") == nullptr ? kJsonAny : this->types(part);
    }
  }
  return types;
}

// The values of `enum` and `const` as texts; nothing if equal values could have different texts.
std::optional<std::set<std::string>> JsonSchemaDocument::values(const JsonSchemaPart& given) const {
  const JsonSchemaPart part = follow(given);
  std::set<std::string> texts;
  const auto add = [&](const JsonTree& value) {
    if (value.is(Type::number) || value.is(Type::array) || value.is(Type::object)) return false;
    texts.insert(value.is(Type::string) ? json_string(value.text) : value.text);
    return true;
  };
  if (const JsonTree* one = part.tree->find("const")) return add(*one) ? std::optional(texts) : std::nullopt;
  if (part.tree->find("enum") == nullptr) return std::nullopt;
  for (const JsonTree& value : list(part, "enum").items) {
    if (!add(value)) return std::nullopt;
  }
  return texts;
}

bool JsonSchemaDocument::exclusive(const JsonSchemaPart& given_a, const JsonSchemaPart& given_b) const {
  const JsonSchemaPart a = follow(given_a), b = follow(given_b);
  const auto differ = [&](const JsonSchemaPart& one, const JsonSchemaPart& other) {
    const auto values_one = values(one), values_other = values(other);
    if (!values_one || !values_other) return false;
    return std::none_of(values_one->begin(), values_one->end(),
                        [&](const auto& v) { return values_other->contains(v); });
  };
  const uint32_t common =
      (value_types(a, false) & value_types(b, true)) | (value_types(a, true) & value_types(b, false));
  if (common == 0 || differ(a, b)) return true;
  if (common != kJsonObject) return false;
  // Objects that both need one property, with different values.
  const auto needed = [&](const JsonSchemaPart& part) {
    std::set<std::string> names;
    const JsonTree* required = part.tree->find("required");
    const JsonTree* properties = part.tree->find("properties");
    if (required == nullptr || properties == nullptr) return names;
    for (const JsonTree& name : required->items) {
      if (properties->find(name.text) != nullptr) names.insert(name.text);
    }
    return names;
  };
  const std::set<std::string> names = needed(b);
  for (const std::string& name : needed(a)) {
    if (names.contains(name) && differ(a.at("properties", name), b.at("properties", name))) return true;
  }
  return false;
}

}  // namespace weft
