// The automaton of one rule of a grammar, on its way from an expression to a Grammar.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace weft {

struct RuleCall {
  uint32_t rule = 0, next = 0;  // called, and the state after the call
};

// With transitions that read nothing. State 0 is the first, state 1 the only final one.
struct RuleSketch {
  struct State {
    std::vector<Grammar::Edge> edges;
    std::vector<RuleCall> calls;
    std::vector<uint32_t> free;  // reached without reading anything
  };
  std::vector<State> states = std::vector<State>(2);
};

// Without. State 0 is the first; every state can be reached from it.
struct RuleAutomaton {
  struct State {
    std::vector<Grammar::Edge> edges;  // ascending by low
    std::vector<RuleCall> calls;
    bool final = false;
  };
  std::vector<State> states;
};

// Deterministic (Rabin and Scott's construction, calls being letters like bytes), unless that takes several times the
// sketch's states: then each of the sketch's states stands for itself. Nothing if that too is unreasonably large.
std::optional<RuleAutomaton> remove_free_transitions(const RuleSketch& sketch);

// Removes the states from which a rule cannot end, and the transitions to them. Rules that cannot end keep one state
// that nothing calls. If the root cannot end, nothing is changed, and it returns the rule that is the cause.
std::optional<uint32_t> drop_endless(std::vector<RuleAutomaton>& automata, uint32_t root);

// Rules of a grammar that can never be used, over the automata of all rules.
struct RuleFaults {
  std::optional<uint32_t> endless;  // a rule that can never end
  std::vector<uint32_t>
      left_recursion;  // rules each of which may begin with a call to the next, the last with the first
};
RuleFaults find_faults(const std::vector<RuleAutomaton>& automata);

}  // namespace weft
