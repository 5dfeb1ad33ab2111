// Keep-lists: the tokens whose rows of the vocabulary table a session projects, when it does not project all of them.
// What may come in is never restricted; this is about what can come out.
//
// A file is text, an entry a line: a token's id in decimal digits, or its text as a JSON string ("\n the"), which must
// be what exactly one token stands for. '#' begins a comment, which may follow an entry too. The comment
//   # weft-keep fingerprint=0123456789abcdef tokens=32000
// says which tokenizer (Tokenizer::fingerprint and size) the file is for; any other is refused. A file without one is
// taken for any tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace weft {

struct KeepList {
  std::vector<uint32_t> ids;  // ascending, each once; below the tokenizer's size, and each a token's
  bool add_prompt = true;     // the tokens of the session's own prompt are to be kept too
};

// A tokenizer's fingerprint as files write it: 16 hexadecimal digits.
std::string fingerprint_text(uint64_t fingerprint);

// Kept by every list: control tokens, stop tokens among them, and byte tokens, so that any text can still be written
// and ended. Ascending.
std::vector<uint32_t> always_kept(const Tokenizer& tokenizer);

// The LIST of the head setting "keep:LIST": terms with commas between them, worked off from left to right. A term is
// the name of a preset (vocab/keep_presets.h) or else the path of a file, which holds no comma; "./latin" is a file. It
// adds its tokens, or with '!' before it takes them away; if the first does that, it takes them from all tokens.
// "!prompt" clears add_prompt and is no term otherwise. always_kept() is added in the end. Throws
// Error(invalid_argument) for an empty term, a term that is neither, more than 64 of them, and a list that names no
// token; Error(bad_file), whose place is FILE:LINE, for what is wrong in a file; Error(io) for one that cannot be read.
KeepList make_keep_list(std::string_view list, const Tokenizer& tokenizer);

// Writes a file of these ids, in any order, for this tokenizer; readers see an older file or the whole new one.
// Throws Error(invalid_argument) for an id that is no token's, Error(io) where the file cannot be written.
void write_keep_list(const std::filesystem::path& path, std::span<const uint32_t> ids, const Tokenizer& tokenizer);

}  // namespace weft
