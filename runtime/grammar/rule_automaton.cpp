#include "grammar/rule_automaton.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "base/wanted.h"
#include "grammar/word_hash.h"

namespace weft {
namespace {

using Edge = Grammar::Edge;
using Set = std::vector<uint32_t>;  // the sketch's states, ascending

constexpr size_t kMaxWork = size_t{1} << 22;  // states and transitions looked at

class Construction {
 public:
  // merge: where transitions read the same, their targets become one state.
  Construction(const RuleSketch& sketch, bool merge, size_t max_states)
      : sketch_(sketch), merge_(merge), max_states_(max_states), mark_(sketch.states.size(), 0) {}

  std::optional<RuleAutomaton> run() {
    target({0});
    for (uint32_t at = 0; at < sets_.size(); ++at) {
      const Set members = *sets_[at];
      RuleAutomaton::State state;
      state.final = std::binary_search(members.begin(), members.end(), 1u);
      add_edges(members, state);
      add_calls(members, state);
      if (sets_.size() > max_states_ || work_ > kMaxWork) return std::nullopt;
      result_.states.push_back(std::move(state));
    }
    return std::move(result_);
  }

 private:
  // The number of the state for all that these reach for free.
  uint32_t target(Set from) {
    ++epoch_;
    Set reached;
    while (!from.empty()) {
      const uint32_t state = from.back();
      from.pop_back();
      ++work_;
      rounds_.next();
      if (mark_[state] == epoch_) continue;
      mark_[state] = epoch_;
      const RuleSketch::State& s = sketch_.states[state];
      if (state == 1 || !s.edges.empty() || !s.calls.empty()) reached.push_back(state);
      from.insert(from.end(), s.free.begin(), s.free.end());
    }
    std::sort(reached.begin(), reached.end());
    const auto [slot, is_new] = numbers_.try_emplace(std::move(reached), static_cast<uint32_t>(sets_.size()));
    if (is_new) sets_.push_back(&slot->first);
    return slot->second;
  }

  uint32_t single_target(uint32_t from) {
    if (work_ > kMaxWork) return 0;  // run() gives up
    const auto [known, is_new] = singles_.try_emplace(from, 0);
    if (is_new) known->second = target({from});
    return known->second;
  }

  void add_edges(const Set& members, RuleAutomaton::State& state) {
    std::vector<Edge> edges;
    for (const uint32_t member : members) {
      const auto& own = sketch_.states[member].edges;
      edges.insert(edges.end(), own.begin(), own.end());
    }
    work_ += edges.size();
    std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.low < b.low; });
    if (!merge_) {
      for (Edge& edge : edges) edge.target = single_target(edge.target);
      state.edges = std::move(edges);
      return;
    }
    std::array<bool, 257> bounds{};  // where the bytes that the edges read begin and end
    for (const Edge& edge : edges) bounds[edge.low] = bounds[edge.high + 1u] = true;
    for (unsigned low = 0; low < 256;) {
      unsigned end = low + 1;
      while (end < 256 && !bounds[end]) ++end;
      Set targets;
      for (const Edge& edge : edges) {
        if (edge.low > low) break;
        if (edge.high >= low) targets.push_back(edge.target);
      }
      if (!targets.empty()) {
        const uint32_t to = target(std::move(targets));
        const bool goes_on =
            !state.edges.empty() && state.edges.back().target == to && state.edges.back().high + 1u == low;
        if (!goes_on) state.edges.push_back({static_cast<uint8_t>(low), 0, to});
        state.edges.back().high = static_cast<uint8_t>(end - 1);
      }
      low = end;
    }
  }

  void add_calls(const Set& members, RuleAutomaton::State& state) {
    std::map<uint32_t, Set> nexts;
    for (const uint32_t member : members) {
      for (const RuleCall& call : sketch_.states[member].calls) nexts[call.rule].push_back(call.next);
    }
    for (auto& [rule, next] : nexts) {
      work_ += next.size();
      if (merge_) {
        state.calls.push_back({rule, target(std::move(next))});
      } else {
        for (const uint32_t one : next) state.calls.push_back({rule, single_target(one)});
      }
    }
  }

  const RuleSketch& sketch_;
  const bool merge_;
  const size_t max_states_;
  std::vector<uint32_t> mark_;  // the epoch in which target() last met a state
  uint32_t epoch_ = 0;
  std::unordered_map<Set, uint32_t, WordHash> numbers_;
  std::vector<const Set*> sets_;
  std::unordered_map<uint32_t, uint32_t> singles_;  // target() of one state
  size_t work_ = 0;
  WantedRounds rounds_;
  RuleAutomaton result_;
};

}  // namespace

std::optional<RuleAutomaton> remove_free_transitions(const RuleSketch& sketch) {
  const size_t size = sketch.states.size();
  if (auto made = Construction(sketch, true, 4 * size + 64).run()) return made;
  return Construction(sketch, false, size).run();
}

namespace {

// Which states are reached from their rule's first one, and which rules end, if only some transitions may be taken.
class Reach {
 public:
  std::vector<std::vector<bool>> reached;  // by rule and state
  std::vector<bool> ends;                  // by rule

  // bytes: edges may be taken. If not, only what matches the empty text is found. Calls may be where their rule ends.
  Reach(const std::vector<RuleAutomaton>& automata, bool bytes) : ends(automata.size(), false), automata_(automata) {
    waiting_.resize(automata.size());
    for (uint32_t rule = 0; rule < automata.size(); ++rule) {
      reached.emplace_back(automata[rule].states.size(), false);
      reach(rule, 0);
    }
    WantedRounds rounds;
    while (!work_.empty()) {
      rounds.next();
      const auto [rule, number] = work_.back();
      work_.pop_back();
      const RuleAutomaton::State& state = automata_[rule].states[number];
      if (bytes) {
        for (const Edge& edge : state.edges) reach(rule, edge.target);
      }
      for (const RuleCall& call : state.calls) {
        if (ends[call.rule]) {
          reach(rule, call.next);
        } else {
          waiting_[call.rule].push_back({rule, call.next});
        }
      }
      if (state.final && !ends[rule]) {
        ends[rule] = true;
        for (const RuleState& after : waiting_[rule]) reach(after.rule, after.state);
      }
    }
  }

 private:
  struct RuleState {
    uint32_t rule, state;
  };
  void reach(uint32_t rule, uint32_t state) {
    if (reached[rule][state]) return;
    reached[rule][state] = true;
    work_.push_back({rule, state});
  }

  const std::vector<RuleAutomaton>& automata_;
  std::vector<std::vector<RuleState>> waiting_;  // by rule: the states after calls to it
  std::vector<RuleState> work_;
};

// Finds a cycle in a graph, which has for each node the list of nodes that it leads to; empty if the graph has no
// cycle. Depth first, without recursion.
std::vector<uint32_t> find_cycle(const std::vector<std::vector<uint32_t>>& graph) {
  enum class Seen : uint8_t { no, on_path, done };
  std::vector<Seen> seen(graph.size(), Seen::no);
  std::vector<size_t> next(graph.size(), 0);
  std::vector<uint32_t> path;
  for (uint32_t root = 0; root < graph.size(); ++root) {
    if (seen[root] != Seen::no) continue;
    path = {root};
    seen[root] = Seen::on_path;
    while (!path.empty()) {
      const uint32_t node = path.back();
      if (next[node] == graph[node].size()) {
        seen[node] = Seen::done;
        path.pop_back();
        continue;
      }
      const uint32_t to = graph[node][next[node]++];
      if (seen[to] == Seen::on_path) return {std::find(path.begin(), path.end(), to), path.end()};
      if (seen[to] == Seen::no) {
        seen[to] = Seen::on_path;
        path.push_back(to);
      }
    }
  }
  return {};
}

// A rule that cannot end needs a call to another such rule. Following these calls leads to a rule that needs itself.
uint32_t find_cause(uint32_t rule, const std::vector<RuleAutomaton>& automata, const std::vector<bool>& ends) {
  std::vector<bool> seen(automata.size(), false);
  while (!seen[rule]) {
    seen[rule] = true;
    for (const auto& state : automata[rule].states) {
      const auto call = std::find_if(state.calls.begin(), state.calls.end(), [&](auto& c) { return !ends[c.rule]; });
      if (call == state.calls.end()) continue;
      rule = call->rule;
      break;
    }
  }
  return rule;
}

}  // namespace

std::optional<uint32_t> drop_endless(std::vector<RuleAutomaton>& automata, uint32_t root) {
  const std::vector<bool> ends = Reach(automata, true).ends;
  if (!ends[root]) return find_cause(root, automata, ends);
  for (uint32_t rule = 0; rule < automata.size(); ++rule) {
    auto& states = automata[rule].states;
    if (!ends[rule]) {
      states.assign(1, {});
      states[0].final = true;
      continue;
    }
    std::vector<std::vector<uint32_t>> before(states.size());
    std::vector<uint32_t> work;
    for (uint32_t i = 0; i < states.size(); ++i) {
      std::erase_if(states[i].calls, [&](const RuleCall& call) { return !ends[call.rule]; });
      for (const Edge& edge : states[i].edges) before[edge.target].push_back(i);
      for (const RuleCall& call : states[i].calls) before[call.next].push_back(i);
      if (states[i].final) work.push_back(i);
    }
    std::vector<bool> useful(states.size(), false);
    while (!work.empty()) {
      const uint32_t at = work.back();
      work.pop_back();
      if (useful[at]) continue;
      useful[at] = true;
      work.insert(work.end(), before[at].begin(), before[at].end());
    }
    for (RuleAutomaton::State& state : states) {
      std::erase_if(state.edges, [&](const Edge& edge) { return !useful[edge.target]; });
      std::erase_if(state.calls, [&](const RuleCall& call) { return !useful[call.next]; });
    }
    // States that nothing leads to any more would only look as if they could not end.
    for (size_t i = 0; i < states.size(); ++i) {
      if (!useful[i]) states[i].final = true;
    }
  }
  return std::nullopt;
}

RuleFaults find_faults(const std::vector<RuleAutomaton>& automata) {
  RuleFaults faults;
  const Reach endings(automata, true);
  const auto endless = std::find(endings.ends.begin(), endings.ends.end(), false);
  if (endless != endings.ends.end()) {
    faults.endless = find_cause(static_cast<uint32_t>(endless - endings.ends.begin()), automata, endings.ends);
  }

  const Reach empty(automata, false);
  std::vector<std::vector<uint32_t>> begins_with(automata.size());
  for (uint32_t rule = 0; rule < automata.size(); ++rule) {
    for (size_t state = 0; state < automata[rule].states.size(); ++state) {
      if (!empty.reached[rule][state]) continue;
      for (const RuleCall& call : automata[rule].states[state].calls) begins_with[rule].push_back(call.rule);
    }
  }
  faults.left_recursion = find_cycle(begins_with);
  return faults;
}

}  // namespace weft
