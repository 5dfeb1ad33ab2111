#include "grammar/text_automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace weft {

void check_text_states(size_t states, size_t most) {
  if (states <= most) return;
  throw Error(Code::unsupported,
              "its conditions together need more than " + std::to_string(most) + " states of an automaton");
}

bool TextAutomaton::accepts(std::string_view text) const {
  if (empty()) return false;
  uint32_t at = 0;
  while (!text.empty()) {
    const Utf8Char c = first_utf8(text);
    text.remove_prefix(c.size);
    const auto& edges = states[at].edges;
    const auto edge = std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.on.contains(c.code); });
    if (edge == edges.end()) return false;
    at = edge->target;
  }
  return states[at].final;
}

TextAutomaton trimmed(const TextAutomaton& automaton) {
  const size_t count = automaton.states.size();
  std::vector<std::vector<uint32_t>> before(count);
  std::vector<uint32_t> work;
  std::vector<bool> useful(count, false);
  for (uint32_t i = 0; i < count; ++i) {
    for (const auto& edge : automaton.states[i].edges) before[edge.target].push_back(i);
    if (automaton.states[i].final) work.push_back(i);
  }
  while (!work.empty()) {
    const uint32_t at = work.back();
    work.pop_back();
    if (useful[at]) continue;
    useful[at] = true;
    work.insert(work.end(), before[at].begin(), before[at].end());
  }
  TextAutomaton made;
  if (count == 0 || !useful[0]) return made;
  std::vector<uint32_t> number(count, UINT32_MAX), order = {0};
  number[0] = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    TextAutomaton::State state{{}, automaton.states[order[i]].final};
    for (const auto& edge : automaton.states[order[i]].edges) {
      if (!useful[edge.target] || edge.on.empty()) continue;
      if (number[edge.target] == UINT32_MAX) {
        number[edge.target] = static_cast<uint32_t>(order.size());
        order.push_back(edge.target);
      }
      state.edges.push_back({edge.on, number[edge.target]});
    }
    made.states.push_back(std::move(state));
  }
  return made;
}

TextAutomaton intersection(const TextAutomaton& a, const TextAutomaton& b) {
  TextAutomaton made;
  if (a.empty() || b.empty()) return made;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers = {{{0, 0}, 0}};
  std::vector<std::pair<uint32_t, uint32_t>> order = {{0, 0}};
  for (size_t i = 0; i < order.size(); ++i) {
    check_text_states(order.size());
    const auto& one = a.states[order[i].first];
    const auto& other = b.states[order[i].second];
    TextAutomaton::State state{{}, one.final && other.final};
    for (const auto& x : one.edges) {
      for (const auto& y : other.edges) {
        CodePointSet both = x.on.intersected(y.on);
        if (both.empty()) continue;
        const std::pair target{x.target, y.target};
        const auto [slot, is_new] = numbers.try_emplace(target, static_cast<uint32_t>(order.size()));
        if (is_new) order.push_back(target);
        state.edges.push_back({std::move(both), slot->second});
      }
    }
    made.states.push_back(std::move(state));
  }
  return trimmed(made);
}

TextAutomaton complement(const TextAutomaton& automaton) {
  TextAutomaton made = automaton;
  const auto sink = static_cast<uint32_t>(made.states.size());
  made.states.emplace_back();
  for (auto& state : made.states) {
    std::vector<CodePointRange> read;
    for (const auto& edge : state.edges) read.insert(read.end(), edge.on.ranges().begin(), edge.on.ranges().end());
    CodePointSet rest = CodePointSet(std::move(read)).inverse();
    if (!rest.empty()) state.edges.push_back({std::move(rest), sink});
    state.final = !state.final;
  }
  return trimmed(made);
}

TextAutomaton texts_of(const CodePointSet& set, uint32_t least, uint32_t most) {
  TextAutomaton made;
  const bool unbounded = most == UINT32_MAX;
  const uint32_t last = unbounded ? least : most;
  check_text_states(size_t{last} + 1);
  for (uint32_t i = 0; i <= last; ++i) {
    made.states.push_back({{}, i >= least});
    if (i < last || unbounded) made.states.back().edges.push_back({set, std::min(i + 1, last)});
  }
  return made;
}

TextAutomaton listed_texts(const std::vector<std::string_view>& texts) {
  TextAutomaton made;
  if (texts.empty()) return made;
  std::vector<std::map<char32_t, uint32_t>> next(1);
  made.states.emplace_back();
  for (std::string_view text : texts) {
    uint32_t at = 0;
    while (!text.empty()) {
      const Utf8Char c = first_utf8(text);
      text.remove_prefix(c.size);
      const auto [slot, is_new] = next[at].try_emplace(c.code, static_cast<uint32_t>(next.size()));
      at = slot->second;
      if (!is_new) continue;
      next.emplace_back();  // may move the slot
      check_text_states(next.size());
      made.states.emplace_back();
    }
    made.states[at].final = true;
  }
  for (size_t i = 0; i < next.size(); ++i) {
    for (const auto& [code, target] : next[i]) made.states[i].edges.push_back({{{code, code}}, target});
  }
  return made;
}

}  // namespace weft
