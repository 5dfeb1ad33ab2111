// Keep-lists: the only tokens that a session may generate; other rows of the vocabulary table are not projected.
// Prompts may have any token.
//
// A file is text with one entry a line: a token's id in decimal digits, or its text as a JSON string ("\n the"), which
// exactly one token must stand for. '#' begins a comment, also after an entry. The comment
//   # weft-keep fingerprint=0123456789abcdef tokens=32000
// names the tokenizer (Tokenizer::fingerprint and size) of the file; for any other tokenizer the file is refused. A
// file without this comment is for any tokenizer.
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
  bool add_prompt = true;     // keep the tokens of the session's own prompt too
};

// A tokenizer's fingerprint as files write it: 16 hexadecimal digits.
std::string fingerprint_text(uint64_t fingerprint);

// Tokens that lists keep unless they say otherwise, ascending: control tokens, stop tokens included, and byte tokens.
// So any text can still be written and ended.
std::vector<uint32_t> always_kept(const Tokenizer& tokenizer);

// Reads the LIST of the head setting "keep:LIST": terms separated by commas, applied from left to right. A term is the
// name of a preset (keep/presets.h) or else the path of a file, without a comma; "./latin" is a file. A term adds
// its tokens; with '!' before it, it removes them. If the first term removes, it removes from all tokens. Single bytes
// that are no whole character are not removed, because they may be part of other characters.
//
// Three terms tell what else is kept, wherever they stand:
//   control, !control  all control tokens (the default), or only those that end a text
//   bytes, !bytes      all byte tokens, or only those that other terms name
//   prompt, !prompt    add_prompt
// Lists of which all terms that add are presets are exact: they have "!bytes" and "!prompt" by default, so that only
// the characters of the presets can be written. Other lists have "bytes" and "prompt" by default.
//
// Throws Error(invalid_argument) for an empty term, a term that is none of these, more than 64 of them, and a list that
// names no token; Error(bad_file), whose place is FILE:LINE, for what is wrong in a file; Error(io) for one that cannot
// be read.
KeepList make_keep_list(std::string_view list, const Tokenizer& tokenizer);

// Writes a file of these ids, in any order, for this tokenizer; readers see an older file or the whole new one.
// Throws Error(invalid_argument) for an id that is no token's, Error(io) where the file cannot be written.
void write_keep_list(const std::filesystem::path& path, std::span<const uint32_t> ids, const Tokenizer& tokenizer);

}  // namespace weft
