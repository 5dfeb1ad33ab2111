// Tokens that are found in a text as they are spelled, before it is split into words: control tokens such as <|im_end|>
// and tokens a model's maker added. The rules are those of Hugging Face's tokenizers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/byte_trie.h"

namespace weft {

struct AddedToken {
  uint32_t id = 0;
  std::string text;          // not empty
  bool control = false;      // found only in text that may be parsed
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // no letter, digit or underscore may stand beside it
  bool normalized = false;   // found in the normalized text, as the normalizer writes it
};

// Constant after construction; any number of threads.
class AddedTokens {
 public:
  struct Match {
    size_t begin, end;  // bytes, with the white space taken; the token is none if the match before took all of it
    size_t next;        // place where the search continues: white space that is taken may still begin a token
    uint32_t id;
  };

  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  // The leftmost match at or after from, the longest of those that begin there. One that must not stand there hides the
  // tokens within it. White space before taken belongs to the match before. plain: one byte for each of the text's, not
  // 0 where a control token must not lie.
  std::optional<Match> find(std::string_view text, std::string_view plain, size_t from, size_t taken) const;

 private:
  // The end of the longest token at a place, and its index; nothing if no token begins there.
  std::optional<std::pair<size_t, uint32_t>> longest_at(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // indexes in tokens_
  std::array<bool, 256> first_{};
};

}  // namespace weft
