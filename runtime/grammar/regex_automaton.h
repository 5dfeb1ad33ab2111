// Regular expressions as deterministic automata: with all their assertions, and to be met with other sets of texts.
#pragma once

#include <string>

#include "grammar/regex_tree.h"
#include "grammar/text_automaton.h"

namespace weft {

// The texts that match; search: some part of which matches. Throws Error(unsupported) with this place if that takes too
// many states, and for an anchor ^ or a word boundary within a lookahead.
TextAutomaton regex_automaton(const RegexTree& tree, bool search, const std::string& place);

}  // namespace weft
