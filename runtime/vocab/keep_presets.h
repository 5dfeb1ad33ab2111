// The sets of tokens a keep-list can name, found from what the tokens' own bytes say.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace weft {

// A set of characters. A token belongs to it when each of its characters does. A token may begin or end inside a UTF-8
// character: what it holds of that one counts as in the set when the rest can make it a character of the set, because a
// model that was trained to write "\u2019" as two such tokens writes it no other way. Bytes no text has belong to none.
struct KeepPreset {
  std::string_view name;
  std::string_view characters;  // PCRE2, one character
  // White space is one of the characters where they say so. Else any may stand beside them, as in " 12", but a token of
  // nothing else does not belong: "!digits" leaves the spaces alone.
  bool spaces;
  std::string_view description;  // one line
};

std::span<const KeepPreset> keep_presets();

// By id: whether the token belongs to the preset; control tokens belong to none.
std::vector<bool> preset_tokens(const KeepPreset& preset, const Tokenizer& tokenizer);

}  // namespace weft
