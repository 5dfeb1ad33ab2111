// Validates a value by a JSON Schema, exactly as the specification says: for the values that a schema lists.
#pragma once

#include "grammar/json_schema_conditions.h"
#include "grammar/json_schema_texts.h"

namespace weft {

// The same JSON value, however it is written.
bool same_value(const JsonTree& a, const JsonTree& b);

// Throws as the document does for what is no schema or not supported.
bool satisfies(const JsonTree& value, const SchemaTerms& terms, const JsonSchemaDocument& document,
               JsonSchemaTexts& texts);

}  // namespace weft
