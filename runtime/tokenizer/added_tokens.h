// Tokens that are found in a text as they are spelled, before anything else happens to it: control tokens such as
// <|im_end|> and tokens a model's maker added.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
};

// Constant after construction; any number of threads.
class AddedTokens {
 public:
  struct Match {
    size_t begin, end;  // bytes, with the white space taken
    uint32_t id;
  };

  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // The leftmost match at or after from, the longest of those that begin there. plain: one byte for each of the text's,
  // not 0 where a control token must not lie.
  std::optional<Match> find(std::string_view text, std::string_view plain, size_t from) const;

 private:
  std::optional<Match> match_at(std::string_view text, std::string_view plain, size_t at) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // indexes in tokens_
  std::array<bool, 256> first_{};
};

}  // namespace weft
