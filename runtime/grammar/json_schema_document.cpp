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
    Keyword{"not", 0},
    Keyword{"if", 0},
    Keyword{"then", 0},
    Keyword{"else", 0},
    Keyword{"properties", kJsonObject},
    Keyword{"patternProperties", kJsonObject},
    Keyword{"propertyNames", kJsonObject},
    Keyword{"minProperties", kJsonObject},
    Keyword{"maxProperties", kJsonObject},
    Keyword{"dependentRequired", kJsonObject},
    Keyword{"dependentSchemas", kJsonObject},
    Keyword{"dependencies", kJsonObject},
    Keyword{"required", kJsonObject},
    Keyword{"additionalProperties", kJsonObject},
    Keyword{"items", kJsonArray},
    Keyword{"prefixItems", kJsonArray},
    Keyword{"minItems", kJsonArray},
    Keyword{"maxItems", kJsonArray},
    Keyword{"additionalItems", kJsonArray},
    Keyword{"contains", kJsonArray},
    Keyword{"minContains", kJsonArray},
    Keyword{"maxContains", kJsonArray},
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

constexpr std::array<std::string_view, 22> kAnnotations = {
    "title",           "description", "default",       "examples",
    "deprecated",      "readOnly",    "writeOnly",     "contentMediaType",
    "contentEncoding", "$comment",    "$defs",         "definitions",
    "contentSchema",   "$schema",     "$id",           "$anchor",
    "$dynamicAnchor",  "$vocabulary", "discriminator", "example",
    "externalDocs",    "xml"};

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

bool JsonSchemaDocument::is_annotation(std::string_view key) {
  return std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end();
}

uint32_t JsonSchemaDocument::types_of_keyword(std::string_view key) {
  const Keyword* keyword = find_keyword(key);
  return keyword == nullptr ? 0 : keyword->types;
}

std::string_view JsonSchemaDocument::keyword_name(std::string_view key) {
  const Keyword* keyword = find_keyword(key);
  return keyword == nullptr ? std::string_view() : keyword->name;
}

JsonSchemaDocument::JsonSchemaDocument(std::string_view text, std::string place)
    : place_(std::move(place)), root_(parse_json_tree(text, place_)), references_(root_) {}

void JsonSchemaDocument::fail(const JsonSchemaPart& part, const JsonTree& tree, const std::string& sentence,
                              const std::string& hint, Code code) const {
  throw Error(code, replace_invalid_utf8(part.pointer) + ": " + sentence, place_of(tree), hint);
}

void JsonSchemaDocument::check_keywords(const JsonSchemaPart& part) const {
  if (!part.tree->is(Type::object)) {
    fail(part, *part.tree, "a schema should be an object, true or false, but is " + type_name(part.tree->type));
  }
  for (const auto& [key, value] : part.tree->members) {
    if (is_annotation(key) || find_keyword(key) != nullptr) continue;
    fail(part, value, "keyword " + in_quotes(key) + " is not supported", {}, Code::unsupported);
  }
  for (const char* key : {"properties", "patternProperties", "dependentRequired", "dependentSchemas", "dependencies"})
    find(part, key, Type::object);
  for (const char* key : {"enum", "prefixItems"}) find(part, key, Type::array);
  if (part.tree->find("enum") != nullptr) list(part, "enum");
  for (const char* key : {"pattern", "format"}) find(part, key, Type::string);
  find(part, "uniqueItems", Type::boolean);
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
  const bool is_number = value->is(Type::integer) || value->is(Type::number);
  const Decimal number = is_number ? parse_decimal(value->text) : Decimal();
  if (!is_number || number.negative || !number.is_whole()) {
    fail(part, *value,
         in_quotes(key) + " should be a whole number from 0 but is " +
             (value->text.empty() ? type_name(value->type) : in_quotes(value->text)));
  }
  constexpr uint64_t kMost = UINT32_MAX - 1;
  uint64_t count = 0;
  for (int64_t place = std::min<int64_t>(number.point, 11); place-- > 0;) {
    const int64_t digit = number.point > 11 ? 9 : number.digit(place) - '0';
    count = std::min(count * 10 + static_cast<uint64_t>(digit), kMost);
  }
  return static_cast<uint32_t>(count);
}

Decimal JsonSchemaDocument::number(const JsonSchemaPart& part, std::string_view key) const {
  const JsonTree& value = *part.tree->find(key);
  if (!value.is(Type::integer) && !value.is(Type::number)) {
    fail(part, value, in_quotes(key) + " should be a number but is " + type_name(value.type));
  }
  Decimal number = parse_decimal(value.text);
  if (key == "multipleOf" && (number.is_zero() || number.negative))
    fail(part, value, "'multipleOf' should be above 0 but is " + in_quotes(value.text));
  return number;
}

std::vector<std::string> JsonSchemaDocument::names(const JsonSchemaPart& part, std::string_view key) const {
  std::vector<std::string> names;
  for (const JsonTree& name : find(part, key, Type::array)->items) {
    if (!name.is(Type::string))
      fail(part, name, in_quotes(key) + " should hold names but holds " + type_name(name.type));
    names.push_back(name.text);
  }
  return names;
}

size_t JsonSchemaDocument::prefix(const JsonSchemaPart& part) const {
  const JsonTree* items = part.tree->find("prefixItems");
  if (items == nullptr) items = part.tree->find("items");
  return items == nullptr ? 0 : items->items.size();
}

std::optional<JsonSchemaPart> JsonSchemaDocument::item(const JsonSchemaPart& part, size_t index) const {
  const JsonTree* items = part.tree->find("items");
  const bool old = items != nullptr && items->is(Type::array);  // drafts before 2020-12
  if (index < prefix(part)) return part.at(old ? "items" : "prefixItems", index);
  const char* rest = old ? "additionalItems" : "items";
  return part.tree->find(rest) == nullptr ? std::nullopt : std::optional(part.at(rest));
}

const JsonTree& JsonSchemaDocument::list(const JsonSchemaPart& part, std::string_view key) const {
  const JsonTree& value = *find(part, key, Type::array);
  if (value.items.empty()) fail(part, value, in_quotes(key) + " has no elements");
  return value;
}

void JsonSchemaDocument::check_chain(const JsonSchemaPart& part) const {
  std::set<const JsonTree*> seen;
  for (JsonSchemaPart at = part; at.tree->find("$ref") != nullptr; at = resolve(at)) {
    if (!seen.insert(at.tree).second) {
      const JsonTree& reference = *part.tree->find("$ref");
      fail(part, reference, "$ref " + in_quotes(reference.text) + " leads back to itself");
    }
  }
}

JsonSchemaPart JsonSchemaDocument::resolve(const JsonSchemaPart& part) const {
  const JsonTree& reference = *find(part, "$ref", Type::string);
  const auto refuse = [&](const std::string& reason) {
    fail(part, reference, "$ref " + in_quotes(reference.text) + " " + reason);
  };
  // The part before '#' names a schema, or the part after it an anchor or a pointer into that schema.
  const std::string uri = resolved_uri(references_.base(*part.tree), reference.text);
  const size_t hash = std::min(uri.find('#'), uri.size());
  const bool anchor = hash + 1 < uri.size() && uri[hash + 1] != '/';
  const SchemaPlace* place = references_.find(anchor ? percent_decoded(uri) : uri.substr(0, hash));
  if (place == nullptr) {
    fail(part, reference, "$ref " + in_quotes(reference.text) + " is not supported",
         "it leads to no schema of this file", Code::unsupported);
  }
  JsonSchemaPart found{place->tree, place->pointer};
  const std::string decoded =
      anchor ? "" : percent_decoded(std::string_view(uri).substr(std::min(hash + 1, uri.size())));
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

uint32_t JsonSchemaDocument::value_types(const JsonSchemaPart& given) const {
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
      types |= part.tree->find("type") == nullptr ? uint32_t{kJsonAny} : this->types(part);
    }
  }
  return types;
}

// The values of `enum` and `const` as texts; nothing if equal values could have different texts.
std::optional<std::set<std::string>> JsonSchemaDocument::values(const JsonSchemaPart& given) const {
  const JsonSchemaPart part = follow(given);
  if (!part.tree->is(Type::object)) return std::nullopt;
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

bool JsonSchemaDocument::only_lists(const JsonSchemaPart& part) const {
  if (part.tree->is(Type::boolean)) return false;
  return std::all_of(part.tree->members.begin(), part.tree->members.end(), [&](const auto& member) {
    return member.key == "const" || member.key == "enum" || is_annotation(member.key);
  });
}

// An object may not have the property.
bool JsonSchemaDocument::forbids(const JsonSchemaPart& part, const std::string& name) const {
  const JsonTree* listed = part.tree->find("properties");
  const JsonTree* own = listed == nullptr ? nullptr : listed->find(name);
  if (own != nullptr) return own->is(Type::boolean) && own->text == "false";
  const JsonTree* others = part.tree->find("additionalProperties");
  return others != nullptr && others->is(Type::boolean) && others->text == "false" &&
         part.tree->find("patternProperties") == nullptr;
}

bool JsonSchemaDocument::exclusive(const JsonSchemaPart& given_a, const JsonSchemaPart& given_b) const {
  const JsonSchemaPart a = follow(given_a), b = follow(given_b);
  const auto differ = [&](const JsonSchemaPart& one, const JsonSchemaPart& other) {
    const auto values_one = values(one), values_other = values(other);
    if (!values_one || !values_other) return false;
    return std::none_of(values_one->begin(), values_one->end(),
                        [&](const auto& v) { return values_other->contains(v); });
  };
  const uint32_t common = value_types(a) & value_types(b);
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
  const auto forbidden = [&](const JsonSchemaPart& one, const JsonSchemaPart& other) {
    const JsonTree* required = other.tree->find("required");
    return required != nullptr && std::any_of(required->items.begin(), required->items.end(),
                                              [&](const JsonTree& name) { return forbids(one, name.text); });
  };
  if (forbidden(a, b) || forbidden(b, a)) return true;
  for (const std::string& name : needed(a)) {
    if (names.contains(name) && differ(a.at("properties", name), b.at("properties", name))) return true;
  }
  return false;
}

}  // namespace weft
