// A JSON Schema as a document: its keywords, its references, and what can be told of a schema without compiling it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/decimal_ranges.h"
#include "grammar/json_schema_references.h"
#include "grammar/json_tree.h"

namespace weft {

// A schema, and where it is in its document ("#/properties/a").
struct JsonSchemaPart {
  const JsonTree* tree = nullptr;
  std::string pointer;

  // A schema within it: of a member, of a member's member, or of a member's element.
  JsonSchemaPart at(std::string_view key) const;
  JsonSchemaPart at(std::string_view key, std::string_view name) const;
  JsonSchemaPart at(std::string_view key, size_t index) const;
};

// Sets of types: a bit for each.
enum JsonTypes : uint32_t {
  kJsonNull = 1,
  kJsonBoolean = 2,
  kJsonInteger = 4,   // whole numbers
  kJsonFraction = 8,  // other numbers
  kJsonString = 16,
  kJsonArray = 32,
  kJsonObject = 64,
  kJsonNumber = kJsonInteger | kJsonFraction,
  kJsonAny = 127,
};

// The bit of a value's type.
uint32_t json_type(const JsonTree& value);

// Constant after construction.
class JsonSchemaDocument {
 public:
  // Throws as parse_json_tree() does.
  JsonSchemaDocument(std::string_view text, std::string place);

  JsonSchemaPart root() const { return {&root_, "#"}; }
  const std::string& place() const { return place_; }
  std::string place_of(const JsonTree& tree) const { return place_ + ":" + std::to_string(tree.line); }

  // The error's place is the line of tree, its sentence begins with part's pointer.
  [[noreturn]] void fail(const JsonSchemaPart& part, const JsonTree& tree, const std::string& sentence,
                         const std::string& hint = {}, Code code = Code::bad_file) const;

  // Refuses what is no schema and keywords that are not supported.
  void check_keywords(const JsonSchemaPart& part) const;
  static bool is_annotation(std::string_view key);
  // Types of the values that a supported keyword speaks of; 0 for all.
  static uint32_t types_of_keyword(std::string_view key);
  // The name of a supported keyword, valid for ever.
  static std::string_view keyword_name(std::string_view key);

  // A member that has to be of a type; nullptr if it is missing.
  const JsonTree* find(const JsonSchemaPart& part, std::string_view key, JsonTree::Type type) const;
  // A member that has to be a whole number from 0; nothing if it is missing. Values above 2^32 - 2 become 2^32 - 2.
  std::optional<uint32_t> find_count(const JsonSchemaPart& part, std::string_view key) const;
  // A member that has to be a number; above 0 for multipleOf.
  Decimal number(const JsonSchemaPart& part, std::string_view key) const;
  // A member that has to be an array of names.
  std::vector<std::string> names(const JsonSchemaPart& part, std::string_view key) const;
  // A member that is an array of at least one element.
  const JsonTree& list(const JsonSchemaPart& part, std::string_view key) const;

  // The schema of an array's element, by prefixItems, items and additionalItems; nothing if any value will do.
  std::optional<JsonSchemaPart> item(const JsonSchemaPart& part, size_t index) const;
  // How many elements have a schema of their own.
  size_t prefix(const JsonSchemaPart& part) const;

  // Refuses references of references that lead back to the schema.
  void check_chain(const JsonSchemaPart& part) const;
  // The target of a schema with $ref.
  JsonSchemaPart resolve(const JsonSchemaPart& part) const;

  // The types that `type` names, which has to be there.
  uint32_t types(const JsonSchemaPart& part) const;

  // The scalar values of `enum` or `const` as texts; nothing if there are none, or if equal values could have different
  // texts.
  std::optional<std::set<std::string>> values(const JsonSchemaPart& part) const;
  // The schema says nothing but these values.
  bool only_lists(const JsonSchemaPart& part) const;

  // True if no value can satisfy both, as far as can be told.
  bool exclusive(const JsonSchemaPart& a, const JsonSchemaPart& b) const;

 private:
  JsonSchemaPart follow(JsonSchemaPart part) const;
  // Types of the values that the schema accepts; all, if that cannot be told.
  uint32_t value_types(const JsonSchemaPart& part) const;
  bool forbids(const JsonSchemaPart& part, const std::string& name) const;

  std::string place_;
  JsonTree root_;
  JsonSchemaReferences references_;
};

}  // namespace weft
