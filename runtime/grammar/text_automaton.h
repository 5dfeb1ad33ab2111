// Deterministic finite automata over characters, for the sets of texts that are met, joined or excluded before they
// become part of a grammar: patterns, lengths, names, numbers.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"

namespace weft {

struct TextAutomaton {
  struct Edge {
    CodePointSet on;
    uint32_t target = 0;
  };
  struct State {
    std::vector<Edge> edges;  // disjoint
    bool final = false;
  };

  // The first is the start. The makers below leave only states from which a final one can be reached, so an automaton
  // without states accepts no text.
  std::vector<State> states;

  bool empty() const { return states.empty(); }
  bool accepts(std::string_view text) const;
};

// More states than this throw Error(unsupported) without a place.
inline constexpr size_t kMaxTextStates = size_t{1} << 16;
void check_text_states(size_t states, size_t most = kMaxTextStates);

// Only the states that lead from the start to a final one.
TextAutomaton trimmed(const TextAutomaton& automaton);

// The texts of both.
TextAutomaton intersection(const TextAutomaton& a, const TextAutomaton& b);

// The texts that are not of this automaton.
TextAutomaton complement(const TextAutomaton& automaton);

// Texts of least to most characters of a set; most UINT32_MAX: of any number.
TextAutomaton texts_of(const CodePointSet& set, uint32_t least, uint32_t most);

// Exactly these texts.
TextAutomaton listed_texts(const std::vector<std::string_view>& texts);

}  // namespace weft
