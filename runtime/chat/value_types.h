// Types of JSON values that a schema allows, so that a model's text becomes the value that is meant.
#pragma once

#include <cstdint>

#include "base/json_value.h"

namespace weft {

// Bits of a set of types.
constexpr uint32_t kTextType = 1, kNumberType = 2, kBooleanType = 4, kNullType = 8, kObjectType = 16, kArrayType = 32;
constexpr uint32_t kAnyType = 63;

// The types that `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf` and `$ref` leave. root: the schema that references
// begin at. Where that cannot be told, all.
uint32_t value_types(const JsonValue& schema, const JsonValue& root);

}  // namespace weft
