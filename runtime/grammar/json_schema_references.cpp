#include "grammar/json_schema_references.h"

#include <algorithm>
#include <array>
#include <vector>

namespace weft {
namespace {

constexpr std::array<std::string_view, 6> kMaps = {"properties",  "patternProperties", "$defs",
                                                   "definitions", "dependentSchemas",  "dependencies"};
constexpr std::array<std::string_view, 4> kLists = {"allOf", "anyOf", "oneOf", "prefixItems"};
constexpr std::array<std::string_view, 11> kSingle = {
    "additionalProperties", "propertyNames",        "items", "additionalItems", "contains", "not", "if", "then", "else",
    "unevaluatedItems",     "unevaluatedProperties"};

template <size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The characters of an URI's scheme with its colon; 0 if it is relative.
size_t scheme_size(std::string_view uri) {
  const size_t colon = uri.find(':');
  return colon == uri.npos || uri.find_first_of("/?#") < colon ? 0 : colon + 1;
}

std::string without_dots(std::string_view path) {
  std::vector<std::string_view> parts;
  bool folder = false;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    folder = part == "." || part == "..";
    if (part == "..") {
      if (parts.size() > 1) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
    if (end == path.size()) break;
    path.remove_prefix(end + 1);
    if (path.empty()) folder = true;
  }
  std::string made;
  for (size_t i = 0; i < parts.size(); ++i) made += (i > 0 ? "/" : "") + std::string(parts[i]);
  return folder ? made + "/" : made;
}

}  // namespace

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

std::string resolved_uri(const std::string& base, std::string_view reference) {
  if (scheme_size(reference) > 0) return std::string(reference);
  const std::string whole = base.substr(0, base.find('#'));
  if (reference.empty() || reference[0] == '#') return whole + std::string(reference);
  // The authority's end: where the path begins.
  size_t path = scheme_size(whole);
  if (whole.compare(path, 2, "//") == 0) path = std::min(whole.find('/', path + 2), whole.size());
  if (reference.starts_with("//")) return whole.substr(0, scheme_size(whole)) + std::string(reference);
  const size_t rest = std::min(reference.find_first_of("?#"), reference.size());
  std::string merged(reference.substr(0, rest));
  if (reference[0] != '/') {
    const std::string own = whole.substr(path, whole.find('?') - path);
    const size_t slash = own.rfind('/');
    merged = (slash == own.npos ? std::string(path > 0 && path == whole.size() ? "/" : "") : own.substr(0, slash + 1)) +
             merged;
  }
  return whole.substr(0, path) + without_dots(merged) + std::string(reference.substr(rest));
}

void JsonSchemaReferences::visit(const JsonTree& schema, const std::string& pointer, std::string base, int depth) {
  if (!schema.is(JsonTree::Type::object)) return;
  const auto text = [&](std::string_view key) -> const std::string* {
    const JsonTree* value = schema.find(key);
    return value != nullptr && value->is(JsonTree::Type::string) ? &value->text : nullptr;
  };
  if (const std::string* id = text("$id")) {
    base = resolved_uri(base, *id);
    if (base.ends_with('#')) base.pop_back();
    places_.try_emplace(base, SchemaPlace{&schema, pointer});
  }
  if (depth == 0) places_.try_emplace(base, SchemaPlace{&schema, pointer});
  for (const char* key : {"$anchor", "$dynamicAnchor"}) {
    if (const std::string* name = text(key)) places_.try_emplace(base + "#" + *name, SchemaPlace{&schema, pointer});
  }
  bases_.emplace(&schema, base);
  for (const auto& [key, value] : schema.members) {
    const std::string below = pointer + pointer_part(key);
    if (among(kSingle, key)) visit(value, below, base, depth + 1);
    for (size_t i = 0; (among(kLists, key) || key == "items") && i < value.items.size(); ++i)
      visit(value.items[i], below + "/" + std::to_string(i), base, depth + 1);
    for (size_t i = 0; among(kMaps, key) && i < value.members.size(); ++i)
      visit(value.members[i].value, below + pointer_part(value.members[i].key), base, depth + 1);
  }
}

const std::string& JsonSchemaReferences::base(const JsonTree& schema) const {
  static const std::string kNone;
  const auto found = bases_.find(&schema);
  return found == bases_.end() ? kNone : found->second;
}

const SchemaPlace* JsonSchemaReferences::find(const std::string& uri) const {
  const auto found = places_.find(uri);
  return found == places_.end() ? nullptr : &found->second;
}

}  // namespace weft
