// The sets of tokens that a keep-list can name. The bytes of a token decide whether it belongs to a set.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace weft {

// A set of characters. A token belongs to it if all of its characters do. A token may begin or end inside a UTF-8
// character: that part counts as in the set if other bytes can complete it to a character of the set, because a model
// that was trained to write "\u2019" as two such tokens writes it no other way. Bytes that are no UTF-8 belong to no
// set.
struct KeepPreset {
  std::string_view name;
  std::string_view characters;  // PCRE2, one character
  // True if `characters` says which white space belongs. Else any white space may stand beside the characters, as in
  // " 12", but a token of white space alone does not belong: "!digits" does not remove spaces.
  bool spaces;
  std::string_view description;  // one line
};

std::span<const KeepPreset> keep_presets();

// By id: whether the token belongs to the preset; control tokens belong to none. A single byte that is no whole
// character belongs if it is part of a character of the set.
std::vector<bool> preset_tokens(const KeepPreset& preset, const Tokenizer& tokenizer);

}  // namespace weft
