#include "grammar/grammar_builder.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/utf8.h"
#include "base/wanted.h"
#include "grammar/rule_automaton.h"

namespace weft {
namespace {

// Sums and products of weights stay far from overflowing.
constexpr uint64_t kHeaviest = uint64_t{1} << 40;

// A body this heavy, repeated this often, becomes a rule, so that a copy of it is a single call.
constexpr uint64_t kHeavyBody = 4, kManyCopies = 4;

constexpr size_t kMaxTransitions = size_t{1} << 23;

}  // namespace

GrammarBuilder::Expr GrammarBuilder::add(Node node) {
  node.weight = std::min(node.weight, kHeaviest);
  for (const Expr part : node.parts) node.depth = std::max(node.depth, nodes_[part].depth + 1);
  if (node.depth > kMaxDepth) {
    throw Error(Code::bad_file,
                "groups, alternatives and repetitions are nested more than " + std::to_string(kMaxDepth) + " deep",
                place_);
  }
  nodes_.push_back(std::move(node));
  return static_cast<Expr>(nodes_.size() - 1);
}

GrammarBuilder::Expr GrammarBuilder::literal(std::string_view bytes) {
  Node node{.kind = Kind::literal, .bytes = std::string(bytes), .weight = bytes.size()};
  return add(std::move(node));
}

GrammarBuilder::Expr GrammarBuilder::character(const CodePointSet& set) {
  const auto [known, is_new] = characters_.try_emplace(set, 0);
  if (!is_new) return known->second;
  Node node{.kind = Kind::character, .sequences = utf8_sequences(set)};
  for (const Utf8Sequence& sequence : node.sequences) node.weight += sequence.size() == 1 ? 0 : sequence.size();
  node.weight += 1;
  return known->second = add(std::move(node));
}

GrammarBuilder::Expr GrammarBuilder::sequence(std::vector<Expr> parts) {
  Node node{.kind = Kind::sequence, .parts = std::move(parts)};
  for (const Expr part : node.parts) node.weight += nodes_[part].weight;
  return add(std::move(node));
}

GrammarBuilder::Expr GrammarBuilder::choice(std::vector<Expr> options) {
  Node node{.kind = Kind::choice, .parts = std::move(options)};
  for (const Expr part : node.parts) node.weight += nodes_[part].weight;
  return add(std::move(node));
}

GrammarBuilder::Expr GrammarBuilder::repeat(Expr expr, uint32_t least, uint32_t most) {
  const uint64_t copies = most == kUnbounded ? least + 1 : most;
  return add({.kind = Kind::repeat,
              .parts = {expr},
              .least = least,
              .most = most,
              .weight = copies * std::min(nodes_[expr].weight, kHeaviest / (kMaxRepeat + 1))});
}

GrammarBuilder::Expr GrammarBuilder::call(Rule rule) { return add({.kind = Kind::call, .rule = rule, .weight = 1}); }

GrammarBuilder::Expr GrammarBuilder::automaton(const TextAutomaton& automaton,
                                               const std::function<Expr(const CodePointSet&)>& character) {
  Node node{.kind = Kind::automaton, .weight = automaton.states.size()};
  for (uint32_t i = 0; i < automaton.states.size(); ++i) {
    node.finals.push_back(automaton.states[i].final);
    for (const TextAutomaton::Edge& edge : automaton.states[i].edges) {
      node.steps.push_back({i, character(edge.on), edge.target});
      node.depth = std::max(node.depth, nodes_[node.steps.back().read].depth + 1);
      node.weight += nodes_[node.steps.back().read].weight;
    }
  }
  return add(std::move(node));
}

GrammarBuilder::Rule GrammarBuilder::declare(std::string name) {
  rules_.push_back({std::move(name), place_, 0});
  return static_cast<Rule>(rules_.size() - 1);
}

void GrammarBuilder::define(Rule rule, std::string place, Expr expr) {
  rules_[rule].place = std::move(place);
  rules_[rule].expr = expr;
}

GrammarBuilder::Expr GrammarBuilder::shared(std::string name, std::string place, Expr expr) {
  const Rule rule = declare(std::move(name));
  define(rule, std::move(place), expr);
  return call(rule);
}

// ---- Expressions to automata ----

uint32_t GrammarBuilder::new_state(RuleSketch& sketch) {
  check_wanted();
  if (++states_ > kMaxStates) {
    throw Error(Code::bad_file,
                "rule " + in_quotes(rules_[compiling_].name) + " makes the grammar too large: it needs more than " +
                    std::to_string(kMaxStates) + " states",
                rules_[compiling_].place, "repetitions inside repetitions multiply");
  }
  sketch.states.emplace_back();
  return static_cast<uint32_t>(sketch.states.size() - 1);
}

// Adds states and transitions that lead from one state to another by matching an expression. No transition into `from`
// or out of `to` is ever added, unless they are one state, so expressions that share these states cannot mix.
void GrammarBuilder::compile(Expr expr, uint32_t from, uint32_t to, RuleSketch& sketch) {
  const Node& node = nodes_[expr];
  switch (node.kind) {
    case Kind::literal:
      for (size_t i = 0; i < node.bytes.size(); ++i) {
        const auto byte = static_cast<uint8_t>(node.bytes[i]);
        const uint32_t next = i + 1 == node.bytes.size() ? to : new_state(sketch);
        sketch.states[from].edges.push_back({byte, byte, next});
        from = next;
      }
      if (node.bytes.empty()) sketch.states[from].free.push_back(to);
      return;
    case Kind::character:
      return compile_character(node, from, to, sketch);
    case Kind::sequence:
      for (size_t i = 0; i < node.parts.size(); ++i) {
        const uint32_t next = i + 1 == node.parts.size() ? to : new_state(sketch);
        compile(node.parts[i], from, next, sketch);
        from = next;
      }
      if (node.parts.empty()) sketch.states[from].free.push_back(to);
      return;
    case Kind::choice:
      for (const Expr option : node.parts) compile(option, from, to, sketch);
      return;
    case Kind::repeat:
      return compile_repeat(node, from, to, sketch);
    case Kind::automaton:
      return compile_automaton(node, from, to, sketch);
    case Kind::call:
      sketch.states[from].calls.push_back({node.rule, to});
      return;
  }
}

// Sequences share the states of what they have in common at their ends.
void GrammarBuilder::compile_character(const Node& node, uint32_t from, uint32_t to, RuleSketch& sketch) {
  std::map<std::tuple<uint8_t, uint8_t, uint32_t>, uint32_t> before;  // by bytes and the state they lead to
  for (const Utf8Sequence& sequence : node.sequences) {
    uint32_t next = to;
    for (size_t i = sequence.size() - 1; i > 0; --i) {
      const auto [low, high] = sequence[i];
      const auto [slot, is_new] = before.try_emplace({low, high, next}, 0);
      if (is_new) {
        slot->second = new_state(sketch);
        sketch.states[slot->second].edges.push_back({low, high, next});
      }
      next = slot->second;
    }
    sketch.states[from].edges.push_back({sequence[0].low, sequence[0].high, next});
  }
}

// Its start gets a state of its own: the automaton may come back to it.
void GrammarBuilder::compile_automaton(const Node& node, uint32_t from, uint32_t to, RuleSketch& sketch) {
  std::vector<uint32_t> states(node.finals.size());
  for (uint32_t& state : states) state = new_state(sketch);
  sketch.states[from].free.push_back(states[0]);
  for (const Step& step : node.steps) compile(step.read, states[step.from], states[step.to], sketch);
  for (size_t i = 0; i < states.size(); ++i) {
    if (node.finals[i]) sketch.states[states[i]].free.push_back(to);
  }
}

GrammarBuilder::Expr GrammarBuilder::hoist(Expr expr) {
  const auto [slot, is_new] = hoisted_.try_emplace(expr, 0);
  if (is_new) {
    slot->second = declare(rules_[compiling_].name);
    define(slot->second, rules_[compiling_].place, expr);
  }
  return call(slot->second);
}

void GrammarBuilder::compile_repeat(const Node& node, uint32_t from, uint32_t to, RuleSketch& sketch) {
  const bool unbounded = node.most == kUnbounded;
  const uint32_t copies = unbounded ? node.least + 1 : node.most;
  Expr body = node.parts[0];
  if (copies > kManyCopies && nodes_[body].weight > kHeavyBody) body = hoist(body);
  // Every copy ends in a state of its own: it may be followed by a loop.
  for (uint32_t i = 0; i < (unbounded ? node.least : node.most); ++i) {
    if (i >= node.least) sketch.states[from].free.push_back(to);
    const uint32_t next = new_state(sketch);
    compile(body, from, next, sketch);
    from = next;
  }
  if (unbounded) {
    const uint32_t loop = new_state(sketch);
    sketch.states[from].free.push_back(loop);
    compile(body, loop, loop, sketch);
    from = loop;
  }
  sketch.states[from].free.push_back(to);
}

RuleAutomaton GrammarBuilder::compile_rule(Rule rule) {
  compiling_ = rule;
  RuleSketch sketch;
  states_ += sketch.states.size();
  compile(rules_[rule].expr, 0, 1, sketch);
  auto automaton = remove_free_transitions(sketch);
  if (!automaton) {
    throw Error(Code::bad_file,
                "rule " + in_quotes(rules_[rule].name) + " is too intricate: too many of its parts may be empty",
                rules_[rule].place);
  }
  return std::move(*automaton);
}

// ---- A grammar of automata ----

void GrammarBuilder::check(const std::vector<RuleAutomaton>& automata) const {
  const RuleFaults faults = find_faults(automata);
  if (!faults.left_recursion.empty()) {
    std::vector<std::string> names;  // hoisted bodies have their rule's name
    for (const Rule rule : faults.left_recursion) {
      if (names.empty() || names.back() != rules_[rule].name) names.push_back(rules_[rule].name);
    }
    if (names.size() > 1 && names.back() == names.front()) names.pop_back();
    std::string sentence = "left recursion: rule " + in_quotes(names[0]);
    for (size_t i = 1; i < names.size(); ++i) sentence += " may begin with " + in_quotes(names[i]) + ", which";
    throw Error(Code::bad_file, sentence + " may begin with " + (names.size() == 1 ? "itself" : in_quotes(names[0])),
                rules_[faults.left_recursion[0]].place,
                "let a rule begin with something else before it uses itself, or repeat with *");
  }
  if (faults.endless) {
    const Definition& rule = rules_[*faults.endless];
    throw Error(Code::bad_file,
                "rule " + in_quotes(rule.name) + " can never end: each of its alternatives needs the rule itself",
                rule.place);
  }
}

Grammar GrammarBuilder::finish(Rule root, Endless endless) {
  std::vector<RuleAutomaton> automata;
  // Compiling may add rules.
  size_t transitions = 0;
  for (Rule rule = 0; rule < rules_.size(); ++rule) {
    automata.push_back(compile_rule(rule));
    for (const auto& state : automata.back().states) transitions += state.edges.size() + state.calls.size();
    if (transitions > kMaxTransitions) {
      throw Error(Code::bad_file,
                  "the grammar is too large: it needs more than " + std::to_string(kMaxTransitions) + " transitions",
                  place_);
    }
  }
  if (endless == Endless::dropped) {
    if (const auto cause = drop_endless(automata, root)) {
      throw Error(Code::bad_file, "nothing matches the schema at " + in_quotes(rules_[*cause].name),
                  rules_[*cause].place);
    }
  }
  check(automata);
  return assemble(automata, root);
}

Grammar GrammarBuilder::assemble(const std::vector<RuleAutomaton>& automata, Rule root) const {
  std::vector<uint32_t> first(automata.size());  // each rule's first state
  uint32_t count = 0;
  for (Rule rule = 0; rule < automata.size(); ++rule) {
    first[rule] = count;
    count += static_cast<uint32_t>(automata[rule].states.size());
  }
  Grammar grammar;
  grammar.place_ = place_;
  grammar.start_ = first[root];
  std::array<bool, 257> bounds{};
  for (Rule rule = 0; rule < automata.size(); ++rule) {
    grammar.names_.push_back(rules_[rule].name);
    for (const RuleAutomaton::State& state : automata[rule].states) {
      grammar.states_.push_back({static_cast<uint32_t>(grammar.edges_.size()),
                                 static_cast<uint32_t>(grammar.calls_.size()), rule, state.final});
      for (const Grammar::Edge& edge : state.edges) {
        grammar.edges_.push_back({edge.low, edge.high, first[rule] + edge.target});
        bounds[edge.low] = bounds[edge.high + 1u] = true;
      }
      for (const RuleCall& call : state.calls) grammar.calls_.push_back({first[call.rule], first[rule] + call.next});
    }
  }
  grammar.states_.push_back(
      {static_cast<uint32_t>(grammar.edges_.size()), static_cast<uint32_t>(grammar.calls_.size()), root, false});
  for (size_t byte = 0; byte < 256; ++byte) {
    if (byte > 0 && bounds[byte]) ++grammar.class_count_;
    grammar.classes_[byte] = static_cast<uint8_t>(grammar.class_count_);
  }
  ++grammar.class_count_;
  return grammar;
}

}  // namespace weft
