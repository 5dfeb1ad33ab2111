// A prompt in pieces: what a chat template writes and a tokenizer encodes.
#pragma once

#include <string>

namespace weft {

// What a tokenizer makes of a control token's spelling ("<|im_end|>"). parse: the control token, as in text that a
// template's author wrote. plain: ordinary characters, as in anything a user typed.
enum class Special { parse, plain };

struct TextPiece {
  std::string text;
  Special special;
};

}  // namespace weft
