// Regular expressions (grammar/regex_tree.h) as grammars.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "grammar/grammar_builder.h"

namespace weft {

struct RegexStyle {
  // How one character of a set is written. The set is never empty.
  std::function<GrammarBuilder::Expr(const CodePointSet&)> character;
  // The pattern has to match some part of the text, and not the whole of it.
  bool search = false;
};

// Throws as parse_regex() does, and Error(unsupported) for anchors within groups, word boundaries and lookahead whose
// automaton is too large.
GrammarBuilder::Expr add_regex(GrammarBuilder& builder, std::string_view pattern, const std::string& place,
                               const RegexStyle& style);

}  // namespace weft
