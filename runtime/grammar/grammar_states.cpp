#include "grammar/grammar_states.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace weft {

GrammarStates::GrammarStates(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), class_count_(grammar_->byte_class_count()) {
  intern({kMustGoOn});  // kDead
}

uint32_t GrammarStates::stack(uint32_t state, uint32_t below) {
  const auto next = static_cast<uint32_t>(stacks_.size());
  const auto [slot, is_new] = stack_numbers_.try_emplace(uint64_t{state} << 32 | below, next);
  if (is_new) {
    stacks_.push_back({state, below});
    visited_.push_back(0);
  }
  return slot->second;
}

GrammarStates::State GrammarStates::intern(std::vector<uint32_t> set) {
  const auto [slot, is_new] = state_numbers_.try_emplace(std::move(set), static_cast<State>(sets_.size()));
  if (is_new) {
    sets_.push_back(&slot->first);
    moves_.resize(moves_.size() + class_count_, kUnknown);
    set_words_ += slot->first.size();
  }
  return slot->second;
}

void GrammarStates::visit(uint32_t stack) {
  if (visited_[stack] == round_) return;
  visited_[stack] = round_;
  work_.push_back(stack);
}

// The state of what was visited since round_ changed: all that can be reached without reading a byte.
GrammarStates::State GrammarStates::close() {
  std::vector<uint32_t> set;
  bool may_end = false;
  for (size_t i = 0; i < work_.size(); ++i) {
    const uint32_t number = work_[i];
    const auto [state, below] = stacks_[number];
    if (!grammar_->edges(state).empty()) set.push_back(number);
    for (const Grammar::Call& call : grammar_->calls(state)) {
      // If the rule ends right after the call, the callee returns to the rule's own caller (a tail call).
      visit(stack(call.start, grammar_->is_end(call.next) ? below : stack(call.next, below)));
    }
    if (grammar_->is_final(state)) {
      if (below == kNone) {
        may_end = true;
      } else {
        visit(below);
      }
    }
    if (set.size() > kMaxStacks || work_.size() > 16 * kMaxStacks) {
      throw Error(Code::unsupported,
                  "the grammar is too ambiguous: within rule " + in_quotes(grammar_->rule_name(state)) +
                      " a text can be derived in more than " + std::to_string(kMaxStacks) + " ways at once",
                  grammar_->place());
    }
  }
  visits_ += work_.size();
  std::sort(set.begin(), set.end());
  set.push_back(may_end ? kMayEnd : kMustGoOn);
  return intern(std::move(set));
}

GrammarStates::State GrammarStates::start() {
  ++round_;
  work_.clear();
  visit(stack(grammar_->start(), kNone));
  return close();
}

GrammarStates::State GrammarStates::make_move(State state, uint8_t byte) {
  ++round_;
  work_.clear();
  const std::vector<uint32_t>& set = *sets_[state];
  for (size_t i = 0; i + 1 < set.size(); ++i) {
    const auto [top, below] = stacks_[set[i]];
    for (const Grammar::Edge& edge : grammar_->edges(top)) {
      if (edge.low > byte) break;
      if (edge.high >= byte) visit(stack(edge.target, below));
    }
  }
  return close();
}

GrammarStates::State GrammarStates::adopt(const GrammarStates& other, State state) {
  std::vector<uint32_t> set = *other.sets_[state];
  std::vector<uint32_t> path;
  for (size_t i = 0; i + 1 < set.size(); ++i) {
    path.clear();
    for (uint32_t at = set[i]; at != kNone; at = other.stacks_[at].below) path.push_back(at);
    uint32_t below = kNone;
    for (auto at = path.rbegin(); at != path.rend(); ++at) below = stack(other.stacks_[*at].state, below);
    set[i] = below;
  }
  std::sort(set.begin(), set.end() - 1);
  return intern(std::move(set));
}

size_t GrammarStates::memory() const {
  // A node of a hash table takes two or three words beside what is in it.
  return moves_.capacity() * sizeof(State) + stacks_.size() * 56 + sets_.size() * 88 + set_words_ * sizeof(uint32_t);
}

}  // namespace weft
