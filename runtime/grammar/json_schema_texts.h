// The strings that a JSON Schema's keywords allow: patterns, formats, lengths, lists.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "grammar/json_schema_conditions.h"
#include "grammar/text_automaton.h"

namespace weft {

// A pattern for the whole text of a format; nothing for a format that is not supported. An empty pattern: any text.
std::optional<std::string> format_pattern(std::string_view name);

class JsonSchemaTexts {
 public:
  explicit JsonSchemaTexts(const JsonSchemaDocument& document) : document_(document) {}

  // The pattern of a string's `format`, which has to be supported.
  std::string format(const JsonSchemaPart& part, const JsonTree& name) const;

  // The texts that match `pattern` or `format`, or a name of patternProperties.
  const TextAutomaton& matching(const JsonSchemaPart& part, const JsonTree& tree, const std::string& pattern,
                                bool search);

  // The schemas of a property of an object, by properties, patternProperties and additionalProperties.
  std::vector<JsonSchemaPart> property(const JsonSchemaPart& part, const std::string& name);

  // The texts that satisfy one condition on strings; nothing if it demands nothing of them.
  std::optional<TextAutomaton> satisfying(const SchemaCondition& condition);
  // The texts that satisfy all conditions of a branch.
  TextAutomaton satisfying(const SchemaBranch& branch);
  // The texts of any of the terms' branches.
  TextAutomaton satisfying(const SchemaTerms& terms);

 private:
  template <typename Make>
  auto within(const JsonSchemaPart& part, const JsonTree& tree, Make make) const;

  const JsonSchemaDocument& document_;
  std::map<std::pair<const JsonTree*, std::string>, TextAutomaton> known_;  // patterns made before
};

}  // namespace weft
