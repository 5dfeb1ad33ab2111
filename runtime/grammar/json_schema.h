// JSON schemas as a part of a grammar.
#pragma once

#include <string>
#include <string_view>

#include "grammar/grammar_builder.h"

namespace weft {

// A rule for the values of a schema, as Grammar::from_json_schema has them. Throws as it does; place: for errors.
GrammarBuilder::Rule add_json_schema(GrammarBuilder& builder, std::string_view text, const std::string& place);

}  // namespace weft
