// A JSON Schema's conjunctions, choices and negations as alternatives, each of which is a list of simple conditions.
//
// `not` is pushed inwards: a value does not satisfy a schema if it fails one of its keywords. `if`,
// `dependentRequired`, `dependentSchemas` and `oneOf` become choices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grammar/json_schema_document.h"

namespace weft {

// A schema that a value has to satisfy, or has not to.
struct SchemaTerm {
  JsonSchemaPart part;
  bool negated = false;
};
using SchemaTerms = std::vector<SchemaTerm>;

// One keyword's demand. Positive ones demand something only of values of the keyword's type; negated ones stand in
// branches of that type.
struct SchemaCondition {
  std::string_view key;  // the keyword; or "absent", "property", "item" for the negation of one name or one place
  JsonSchemaPart part;   // the schema that has it
  const JsonTree* value = nullptr;
  bool negated = false;
  std::string name;  // of a property: required, absent, property
  size_t index = 0;  // item: the place; of `items`, the first place that it speaks of
};

struct SchemaBranch {
  uint32_t types = kJsonAny;
  std::vector<SchemaCondition> conditions;
};

// Branches of which a value has to satisfy one, in the schema's order. Without `type`, a branch has the types that its
// positive keywords speak of. Throws Error(unsupported), naming a schema, if there are more than a few hundred.
std::vector<SchemaBranch> schema_branches(const JsonSchemaDocument& document, const SchemaTerms& terms);

}  // namespace weft
