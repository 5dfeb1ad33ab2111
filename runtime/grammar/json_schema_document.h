// A JSON Schema as a document: its keywords, its references, and what can be told of a schema without compiling it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"
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
  // Refuses keywords, but annotations, beside a keyword and those named.
  void check_alone(const JsonSchemaPart& part, std::string_view keyword,
                   std::initializer_list<std::string_view> allowed = {}) const;

  // A member that has to be of a type; nullptr if there is none.
  const JsonTree* find(const JsonSchemaPart& part, std::string_view key, JsonTree::Type type) const;
  // A member that has to be a whole number from 0; nothing if there is none, and more than 2^32 - 2 is 2^32 - 2.
  std::optional<uint32_t> find_count(const JsonSchemaPart& part, std::string_view key) const;
  // A member that is an array of at least one element.
  const JsonTree& list(const JsonSchemaPart& part, std::string_view key) const;

  // What a schema with $ref refers to.
  JsonSchemaPart resolve(const JsonSchemaPart& part) const;

  // The types that `type` names; without it, those that the other keywords speak of.
  uint32_t types(const JsonSchemaPart& part) const;

  // Whether a value the grammar of one makes can never be one the other accepts, as far as can be told.
  bool exclusive(const JsonSchemaPart& a, const JsonSchemaPart& b) const;

 private:
  JsonSchemaPart follow(JsonSchemaPart part) const;
  // strict: of the values that the schema accepts; else only of those that its grammar makes. Any, if that cannot be
  // told.
  uint32_t value_types(const JsonSchemaPart& part, bool strict) const;
  std::optional<std::set<std::string>> values(const JsonSchemaPart& part) const;

  std::string place_;
  JsonTree root_;
};

}  // namespace weft
