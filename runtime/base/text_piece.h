// A prompt in pieces: what a chat template writes and a tokenizer encodes.
#pragma once

#include <string>

namespace weft {

// How a tokenizer reads the spelling of a control token ("<|im_end|>"). parse: as the control token, for text that a
// template's author wrote. plain: as ordinary characters, for everything that a user typed.
enum class Special { parse, plain };

struct TextPiece {
  std::string text;
  Special special;
};

}  // namespace weft
