// Regular expressions of ECMAScript (ECMA-262, with its flag u) as trees, as far as they describe a regular language.
//
// Characters, . (all but line ends), classes [a-z] and [^a-z], \d \D \w \W \s \S, the escapes \n \t \r \f \v \0 \cX
// \xNN \uNNNN \u{N...} and a backslash before punctuation, groups (...), (?:...) and (?<name>...), alternation, the
// quantifiers * + ? {m} {m,} {m,n}, also lazy ones, which match the same texts, the anchors ^ and $, the word
// boundaries \b and \B, and lookahead (?=...) and (?!...).
//
// Refused by name: lookbehind, backreferences, Unicode properties, flags, possessive quantifiers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"

namespace weft {

struct RegexTree {
  enum class Kind { characters, sequence, choice, repeat, begin, end, boundary, no_boundary, followed, not_followed };

  Kind kind = Kind::sequence;
  CodePointSet set;              // characters; not empty
  std::vector<RegexTree> parts;  // sequence, choice; one for repeat and lookahead
  uint32_t least = 0, most = 0;  // repeat; UINT32_MAX: any number

  bool is(Kind wanted) const { return kind == wanted; }
  // It, or something in it, is an anchor, a boundary or a lookahead.
  bool has_assertions() const;
};

// At most 64 KiB. Throws Error(bad_file), or Error(unsupported) for what is refused by name; place: for those.
RegexTree parse_regex(std::string_view pattern, const std::string& place);

}  // namespace weft
