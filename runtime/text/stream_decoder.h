// Tokens to text while they come, never half a UTF-8 character.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace weft {

// Continues a text: unlike Tokenizer::decode it drops no leading space. One thread at a time; keeps the tokenizer's
// contents alive.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer);

  // The text this token completes, maybe empty. Bytes that can never become UTF-8 give U+FFFD at once.
  std::string push(uint32_t id);
  // What is left when the text ends: a character never completed, as U+FFFD. The decoder is then as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  std::string pending_;  // at most three bytes between calls: the beginning of a character
};

}  // namespace weft
