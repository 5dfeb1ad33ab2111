// The states of a text under a grammar: a pushdown automaton that makes its states when they are needed and remembers
// its moves.
//
// If several derivations are open, a state is the set of their stacks. Stacks are linked lists with shared tails; every
// list and every set is stored once, so equal states have equal numbers and a move is computed once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/word_hash.h"

namespace weft {

// One thread at a time.
class GrammarStates {
 public:
  using State = uint32_t;
  // The state that nothing leads out of: the text is no beginning of any that the grammar allows.
  static constexpr State kDead = 0;
  static constexpr size_t kMaxStacks = 4096;  // of one state

  explicit GrammarStates(std::shared_ptr<const Grammar> grammar);
  GrammarStates(const GrammarStates&) = delete;
  GrammarStates& operator=(const GrammarStates&) = delete;

  // The state of the empty text. May throw as next() does.
  State start();
  // Throws Error(unsupported), naming a rule, where a text could be derived in more ways than kMaxStacks.
  State next(State state, uint8_t byte) {
    const size_t move = size_t{state} * class_count_ + grammar_->byte_class(byte);
    if (moves_[move] == kUnknown) {
      const State made = make_move(state, byte);
      moves_[move] = made;
    }
    return moves_[move];
  }
  // True if the text may end here.
  bool may_end(State state) const { return sets_[state]->back() == kMayEnd; }
  // True if bytes may follow.
  bool may_continue(State state) const { return sets_[state]->size() > 1; }

  // The same state, from another object for the same grammar.
  State adopt(const GrammarStates& other, State state);
  // About how much memory it holds.
  size_t memory() const;
  // Stacks visited so far: some 50 ns each.
  uint64_t visits() const { return visits_; }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;                                // below a stack's bottom
  static constexpr uint32_t kMayEnd = UINT32_MAX, kMustGoOn = UINT32_MAX - 1;  // the last element of a set

  // A stack's top; what is below it is another stack.
  struct Stack {
    uint32_t state = 0;  // of the grammar
    uint32_t below = 0;
  };

  uint32_t stack(uint32_t state, uint32_t below);
  State intern(std::vector<uint32_t> set);
  State make_move(State state, uint8_t byte);
  void visit(uint32_t stack);
  State close();

  std::shared_ptr<const Grammar> grammar_;
  uint32_t class_count_;
  std::vector<Stack> stacks_;
  std::unordered_map<uint64_t, uint32_t> stack_numbers_;
  // Stacks from whose top a byte can be read, ascending, then kMayEnd or kMustGoOn.
  std::unordered_map<std::vector<uint32_t>, State, WordHash> state_numbers_;
  std::vector<const std::vector<uint32_t>*> sets_;  // by state
  std::vector<State> moves_;                        // by state and class of bytes
  size_t set_words_ = 0;

  // While a state is being made:
  std::vector<uint32_t> visited_;  // by stack: the round in which it was
  uint32_t round_ = 0;
  std::vector<uint32_t> work_;  // stacks visited, from the first to the last
  uint64_t visits_ = 0;
};

}  // namespace weft
