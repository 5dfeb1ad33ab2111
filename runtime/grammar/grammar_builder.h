// Shared by the makers of grammars: expressions, rules, and the checks and compilation that make a Grammar of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/grammar.h"
#include "grammar/text_automaton.h"

namespace weft {

struct RuleAutomaton;
struct RuleSketch;

// One thread at a time. Everything but the definition of rules is immutable once made, and may be used more than once.
class GrammarBuilder {
 public:
  using Expr = uint32_t;
  using Rule = uint32_t;
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  static constexpr uint32_t kMaxRepeat = 100000;   // counts of a repetition
  static constexpr uint32_t kMaxStates = 1 << 18;  // of a whole grammar, before determinisation
  static constexpr uint32_t kMaxNesting = 200;     // of brackets in what makers read
  static constexpr uint32_t kMaxDepth = 450;       // of expressions within one another: they are walked recursively

  // place: the file's name.
  explicit GrammarBuilder(std::string place) : place_(std::move(place)) {}

  Expr empty() { return sequence({}); }
  Expr literal(std::string_view bytes);
  // One character of a set that is not empty.
  Expr character(const CodePointSet& set);
  Expr sequence(std::vector<Expr> parts);
  // Without options: no text at all, which only a grammar whose endless rules are dropped may have.
  Expr choice(std::vector<Expr> options);
  Expr optional(Expr expr) { return repeat(expr, 0, 1); }
  // least <= most; both at most kMaxRepeat, except that most may be kUnbounded.
  Expr repeat(Expr expr, uint32_t least, uint32_t most);
  Expr call(Rule rule);
  // Texts of an automaton that is not empty. character: how one character of a set is written.
  Expr automaton(const TextAutomaton& automaton, const std::function<Expr(const CodePointSet&)>& character);

  // A rule; define() has to follow. name: the name its author gave it.
  Rule declare(std::string name);
  // place: where it is written.
  void define(Rule rule, std::string place, Expr expr);
  // A new rule for an expression, so that using it many times stays cheap.
  Expr shared(std::string name, std::string place, Expr expr);

  // Throws Error(bad_file) for what Grammar's makers refuse. Every declared rule must have been defined. dropped: rules
  // that can never end are left out with all that needs them, and only the root has to end.
  enum class Endless { refused, dropped };
  Grammar finish(Rule root, Endless endless = Endless::refused);

 private:
  enum class Kind { literal, character, sequence, choice, repeat, call, automaton };
  struct Step {
    uint32_t from = 0;
    Expr read = 0;
    uint32_t to = 0;
  };
  struct Node {
    Kind kind = Kind::sequence;
    std::string bytes;                    // literal
    std::vector<Utf8Sequence> sequences;  // character
    std::vector<Expr> parts;              // sequence, choice; one for repeat
    uint32_t least = 0, most = 0;         // repeat
    Rule rule = 0;                        // call
    std::vector<Step> steps;              // automaton, ascending by `from`
    std::vector<bool> finals;             // automaton, by state
    uint64_t weight = 0;                  // about how many states it takes
    uint32_t depth = 0;                   // of the expressions within it
  };
  struct Definition {
    std::string name, place;
    Expr expr = 0;
  };
  Expr add(Node node);
  void compile(Expr expr, uint32_t from, uint32_t to, RuleSketch& sketch);
  void compile_character(const Node& node, uint32_t from, uint32_t to, RuleSketch& sketch);
  void compile_automaton(const Node& node, uint32_t from, uint32_t to, RuleSketch& sketch);
  void compile_repeat(const Node& node, uint32_t from, uint32_t to, RuleSketch& sketch);
  uint32_t new_state(RuleSketch& sketch);
  Expr hoist(Expr expr);
  RuleAutomaton compile_rule(Rule rule);
  void check(const std::vector<RuleAutomaton>& automata) const;
  Grammar assemble(const std::vector<RuleAutomaton>& automata, Rule root) const;

  std::string place_;
  std::deque<Node> nodes_;  // they stay where they are
  std::vector<Definition> rules_;
  std::map<CodePointSet, Expr> characters_;  // those made before
  std::unordered_map<Expr, Rule> hoisted_;   // bodies of long repetitions that became rules
  uint64_t states_ = 0;                      // of the rules compiled so far
  Rule compiling_ = 0;
};

}  // namespace weft
