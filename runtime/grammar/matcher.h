// Which tokens may come next, so that the text matches a grammar.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/token_trie.h"

namespace weft {

class GrammarStates;

struct TokenSet {
  static constexpr uint32_t kMaxListed = 4096;

  std::vector<uint32_t> bits;  // id's bit: bits[id / 32] >> (id % 32) & 1; (vocabulary + 31) / 32 words
  uint32_t count = 0;
  std::vector<uint32_t> ids;  // ascending; empty if count is more than kMaxListed

  bool contains(uint32_t id) const { return id / 32 < bits.size() && (bits[id / 32] >> (id % 32) & 1u) != 0; }
};

// Says token by token which tokens may come next in a text.
class TokenRules {
 public:
  using OnAllowed = std::function<void(size_t index, const TokenSet& allowed)>;

  virtual ~TokenRules() = default;
  virtual const TokenSet& allowed() = 0;  // valid until the next call of anything but a const function
  virtual void accept(uint32_t id) = 0;   // one that is allowed
  virtual size_t look_ahead(std::span<const uint32_t> ids, const OnAllowed& tell) = 0;  // as Matcher's
  virtual bool finished() = 0;                                                          // no token may follow
  virtual void reset() = 0;                                                             // back to the empty text
  virtual uint32_t timestamps() const { return 0; }  // not 0: the first timestamp, for ops::timestamps
};

// One text on its way through a grammar, token by token. Sets that were computed once are kept, up to a bound; reset()
// keeps them for the next text.
//
// A text the matcher let pass matches the grammar once a stop token is accepted or finished() says so, and every text
// before that is the beginning of one that does. If the vocabulary has a token for every byte there is always a token
// that may come next, until the end.
//
// One thread at a time; grammar and trie may be shared by any number of matchers on any threads.
class Matcher : public TokenRules {
 public:
  static constexpr size_t kDefaultMemory = size_t{64} << 20;

  // stop_ids: the tokens that end a text, whatever bytes they have; may be empty. memory: about how many bytes the
  // states that were met may take, and again the sets; with less than it needs, a matcher is slow. Throws
  // Error(invalid_argument) for one that is not below trie->vocabulary_size(), and as allowed() does.
  Matcher(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie, std::vector<uint32_t> stop_ids,
          size_t memory = kDefaultMemory);
  Matcher(Matcher&&) noexcept;
  ~Matcher() override;

  // The tokens that may come next: those whose bytes continue the text, and the stop tokens if it may end. Valid
  // until the next call of anything but a const function. Empty only after a stop token, or at the end of a text if
  // there are no stop tokens. Throws Error(unsupported), with the text so far, if the vocabulary has no token to go on
  // with, or if the grammar is too ambiguous (GrammarStates::kMaxStacks).
  const TokenSet& allowed() override;

  // Adds one token to the text. Throws Error(invalid_argument) for one that is not allowed, and Error(unsupported) as
  // allowed() does; then nothing has changed.
  void accept(uint32_t id) override;

  // Tells which tokens may come after the text and the first 0, 1, ... of these ids, up to the first one that is not
  // allowed, or that ends the text or leads where no token can follow. Returns how many ids come before that one. The
  // text stays as it is. Throws as allowed() does for the text itself.
  size_t look_ahead(std::span<const uint32_t> ids, const OnAllowed& tell) override;

  // The text so far matches the grammar.
  bool may_end() const;
  // True if only the end may follow: a stop token was accepted, or only stop tokens are allowed. Throws as
  // allowed() does.
  bool finished() override;

  // Back to the empty text.
  void reset() override;

 private:
  bool is_stop(uint32_t id) const;
  void add_tokens(TokenSet& set);
  using State = uint32_t;  // GrammarStates::State
  void shrink(std::vector<State>& kept);
  std::string text_so_far() const;

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<uint32_t> stop_ids_;  // ascending
  std::unique_ptr<GrammarStates> states_;
  std::unordered_map<State, TokenSet> sets_;
  size_t memory_, sets_memory_ = 0;
  TokenSet nothing_;  // what is allowed after a stop token
  State state_ = 0;
  std::optional<State> left_;  // the text's state while look_ahead() is at another one
  bool stopped_ = false;
  std::string tail_;     // the end of the text so far, for errors
  uint64_t length_ = 0;  // of the text so far, in bytes
};

}  // namespace weft
