// Regular expressions as grammars: those of ECMAScript (ECMA-262, with its flag u) that describe a regular language.
//
// Characters, . (all but line ends), classes [a-z] and [^a-z], \d \D \w \W \s \S, the escapes \n \t \r \f \v \0 \xNN
// \uNNNN \u{N...} and a backslash before punctuation, groups (...), (?:...) and (?<name>...), alternation, and the
// quantifiers * + ? {m} {m,} {m,n}. ^ and $ may stand at the ends of the pattern or of its outermost alternatives.
//
// What is more than a regular language, or means nothing in one, is refused by name: lookahead and lookbehind,
// backreferences, word boundaries, Unicode properties, flags, lazy and possessive quantifiers.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "grammar/code_points.h"
#include "grammar/grammar_builder.h"

namespace weft {

struct RegexStyle {
  // How one character of a set is written. The set is never empty.
  std::function<GrammarBuilder::Expr(const CodePointSet&)> character;
  // The pattern has to match some part of the text, which ^ and $ tie to its ends, and not the whole of it.
  bool search = false;
};

// At most 64 KiB. Throws Error(bad_file), or Error(unsupported) for what is refused by name; place: for those.
GrammarBuilder::Expr add_regex(GrammarBuilder& builder, std::string_view pattern, const std::string& place,
                               const RegexStyle& style);

}  // namespace weft
