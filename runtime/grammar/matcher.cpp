#include "grammar/matcher.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/grammar_states.h"

namespace weft {
namespace {

constexpr size_t kTail = 80;                         // bytes of the text that errors show
constexpr uint64_t kMostVisits = uint64_t{1} << 24;  // of stacks for one mask: about a second, in which others wait

}  // namespace

Matcher::Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie,
                 std::vector<uint32_t> stop_ids, size_t memory)
    : grammar_(std::move(grammar)), trie_(std::move(trie)), stop_ids_(std::move(stop_ids)), memory_(memory) {
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
  if (!stop_ids_.empty() && stop_ids_.back() >= trie_->vocabulary_size()) {
    throw Error(Code::invalid_argument,
                "stop token " + std::to_string(stop_ids_.back()) + " is outside the vocabulary of " +
                    std::to_string(trie_->vocabulary_size()) + " tokens",
                "Matcher");
  }
  nothing_.bits.resize((trie_->vocabulary_size() + 31) / 32);
  states_ = std::make_unique<GrammarStates>(grammar_);
  reset();
}

Matcher::Matcher(Matcher&&) noexcept = default;
Matcher::~Matcher() = default;

bool Matcher::may_end() const { return states_->may_end(state_); }

void Matcher::reset() {
  state_ = states_->start();
  stopped_ = false;
  tail_.clear();
  length_ = 0;
}

bool Matcher::is_stop(uint32_t id) const { return std::binary_search(stop_ids_.begin(), stop_ids_.end(), id); }

std::string Matcher::text_so_far() const {
  if (length_ == 0) return "at the beginning of the text";
  return "after " + std::string(length_ > tail_.size() ? "... " : "") + in_quotes(tail_);
}

// Starts the memory of states afresh with those in kept, which change their numbers, and with the text's own.
void Matcher::shrink(std::vector<State>& kept) {
  auto fresh = std::make_unique<GrammarStates>(grammar_);
  for (State& state : kept) state = fresh->adopt(*states_, state);
  state_ = fresh->adopt(*states_, state_);
  if (left_) left_ = fresh->adopt(*states_, *left_);
  states_ = std::move(fresh);
  sets_.clear();
  sets_memory_ = 0;
}

// Marks the tokens that go on from the text's state: trie and grammar are walked together.
void Matcher::add_tokens(TokenSet& set) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  std::vector<State> path = {state_};  // by depth
  uint64_t visits = 0;                 // shrink() counts anew
  for (size_t at = 0; at < nodes.size();) {
    const TokenTrie::Node& node = nodes[at];
    path.resize(node.depth);
    const uint64_t before = states_->visits();
    const State state = states_->next(path.back(), node.byte);
    visits += states_->visits() - before;
    if (visits > kMostVisits)
      throw Error(
          Code::unsupported,
          "the grammar is too ambiguous " + text_so_far() + ": the tokens that may follow take too long to find",
          grammar_->place(), "rules that can begin in many places at once multiply");
    if (state == GrammarStates::kDead) {
      at = node.end;
      continue;
    }
    for (const uint32_t id : trie_->tokens(at)) set.bits[id / 32] |= 1u << (id % 32);
    path.push_back(state);
    if (states_->memory() > memory_) shrink(path);
    ++at;
  }
}

const TokenSet& Matcher::allowed() {
  if (stopped_) return nothing_;
  if (const auto known = sets_.find(state_); known != sets_.end()) return known->second;
  TokenSet set;
  set.bits.resize((trie_->vocabulary_size() + 31) / 32);
  add_tokens(set);
  for (const uint32_t id : stop_ids_) {
    const uint32_t bit = 1u << (id % 32);
    set.bits[id / 32] = may_end() ? set.bits[id / 32] | bit : set.bits[id / 32] & ~bit;
  }
  for (const uint32_t word : set.bits) set.count += static_cast<uint32_t>(std::popcount(word));
  if (set.count == 0 && !may_end()) {
    throw Error(Code::unsupported,
                "the grammar needs more text " + text_so_far() + ", but no token of the vocabulary can give it",
                grammar_->place(), "the vocabulary lacks a byte; most have a token for each");
  }
  if (set.count <= TokenSet::kMaxListed) {
    set.ids.reserve(set.count);
    for (uint32_t i = 0; i < set.bits.size(); ++i) {
      for (uint32_t word = set.bits[i]; word != 0; word &= word - 1) {
        set.ids.push_back(i * 32 + static_cast<uint32_t>(std::countr_zero(word)));
      }
    }
  }
  const size_t size = (set.bits.size() + set.ids.size()) * sizeof(uint32_t) + 96;
  if (sets_memory_ + size > memory_) {
    sets_.clear();
    sets_memory_ = 0;
  }
  sets_memory_ += size;
  return sets_.emplace(state_, std::move(set)).first->second;
}

size_t Matcher::look_ahead(std::span<const uint32_t> ids, const OnAllowed& tell) {
  if (stopped_) return 0;
  left_ = state_;
  const auto back = [](Matcher* matcher) { matcher->state_ = *std::exchange(matcher->left_, std::nullopt); };
  const std::unique_ptr<Matcher, decltype(back)> at_the_end(this, back);
  for (size_t index = 0;; ++index) {
    tell(index, allowed());
    if (index == ids.size() || is_stop(ids[index]) || !allowed().contains(ids[index])) return index;
    try {
      for (const char c : trie_->bytes(ids[index])) state_ = states_->next(state_, static_cast<uint8_t>(c));
      if (finished()) return index;
      allowed();
    } catch (const Error&) {  // the ids lead to where no token can follow; the text may go on otherwise
      return index;
    }
  }
}

bool Matcher::finished() {
  if (stopped_) return true;
  if (!may_end()) return false;
  return !states_->may_continue(state_) || allowed().count == stop_ids_.size();
}

void Matcher::accept(uint32_t id) {
  const auto refuse = [&](const std::string& reason) {
    throw Error(Code::invalid_argument, "token " + std::to_string(id) + " " + reason, grammar_->place());
  };
  if (stopped_) refuse("follows the end of the text");
  if (is_stop(id)) {
    if (!may_end()) refuse("ends the text " + text_so_far() + ", where the grammar needs more");
    stopped_ = true;
    return;
  }
  const std::string_view bytes = trie_->bytes(id);
  if (bytes.empty()) refuse("has no text");
  State state = state_;
  for (const char c : bytes) state = states_->next(state, static_cast<uint8_t>(c));
  if (state == GrammarStates::kDead) refuse(in_quotes(bytes) + " does not go on with the grammar " + text_so_far());
  tail_ += bytes;  // may run out of memory, the rest may not
  if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
  state_ = state;
  length_ += bytes.size();
  if (states_->memory() <= memory_) return;
  try {
    std::vector<State> none;
    shrink(none);
  } catch (const std::bad_alloc&) {
    // Tried again at the next token.
  }
}

}  // namespace weft
