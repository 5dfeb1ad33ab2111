// JSON Schema (https://json-schema.org/draft/2020-12) as a grammar: each text of the grammar is a JSON text that the
// schema accepts.
//
// It need not be the other way round: of the texts a schema accepts, the grammar has those of one form.
// - One space, or none, behind ',' and ':'; none elsewhere.
// - Properties in the order of `properties`, any others behind them.
// - Without `additionalProperties`, an object that has `properties` gets no others. Where there are others
//   (`additionalProperties`: true or a schema; an object of which nothing is said) their names have no escapes and are
//   none of the listed ones; that no name comes twice is beyond a grammar.
// - Without `type`, the types that the other keywords speak of; any, if there are none.
// - Whole numbers as digits, at most 15 where they have no bound; a number with bounds has no exponent.
// - Values of `enum` and `const`, and strings with `pattern` or `format`, with the escapes that must be and no others.
//
// Supported: type, enum, const, properties, required, additionalProperties, items, prefixItems, minItems, maxItems,
// minLength, maxLength, pattern (grammar/regex_grammar.h), format (date, time, date-time, uuid, ipv4), minimum,
// maximum, exclusiveMinimum, exclusiveMaximum, anyOf, oneOf whose alternatives exclude each other by type, by their
// values or by a required property's values, allOf of one schema, and $ref to places in the same file, also
// recursively. `true` and `false` where they make sense, and uniqueItems: false.
//
// Ignored, as annotations: title, description, default, examples, deprecated, readOnly, writeOnly, contentMediaType,
// contentEncoding, $comment, $schema, $defs, definitions, and the outermost $id. Everything else, an unknown keyword
// and an unknown format too, is refused by name: ignoring it would let through what its author meant to exclude.
#pragma once

#include "grammar/grammar.h"

// The maker is Grammar::from_json_schema(). Repetition counts beyond GrammarBuilder::kMaxRepeat are lowered to it where
// they are a maximum, and refused where they are a minimum.
