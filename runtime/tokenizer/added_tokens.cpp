#include "tokenizer/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace weft {

namespace {

size_t space_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Char c = first_utf8(text.substr(at));
    if (!c.valid || !is_unicode_space(c.code)) break;
    at += c.size;
  }
  return at;
}

// The beginning of the character that ends at end, not before from.
size_t character_before(std::string_view text, size_t from, size_t end) {
  size_t at = end - 1;
  while (at > from && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return first_utf8(text.substr(at, end - at)).size == end - at ? at : end - 1;
}

size_t space_before(std::string_view text, size_t from, size_t at) {
  while (at > from) {
    const size_t begin = character_before(text, from, at);
    const Utf8Char c = first_utf8(text.substr(begin, at - begin));
    if (!c.valid || !is_unicode_space(c.code)) break;
    at = begin;
  }
  return at;
}

// The regular expression \w of Rust: letters, marks, digits, connectors, and circled letters.
bool is_word(std::string_view text) {
  const Utf8Char c = first_utf8(text);
  if (!c.valid) return false;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c.code));
  const bool joiner = c.code == 0x200C || c.code == 0x200D;
  const bool circled = (c.code >= 0x24B6 && c.code <= 0x24E9) || (c.code >= 0x1F130 && c.code <= 0x1F149) ||
                       (c.code >= 0x1F150 && c.code <= 0x1F169) || (c.code >= 0x1F170 && c.code <= 0x1F189);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC ||
         joiner || circled;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].text.empty()) continue;
    first_[static_cast<unsigned char>(tokens_[i].text.front())] = true;
    trie_.insert(tokens_[i].text, static_cast<uint32_t>(i));
  }
}

std::optional<std::pair<size_t, uint32_t>> AddedTokens::longest_at(std::string_view text, size_t at) const {
  std::optional<std::pair<size_t, uint32_t>> longest;
  uint32_t node = ByteTrie::kRoot;
  for (size_t i = at; i < text.size(); ++i) {
    node = trie_.child(node, static_cast<unsigned char>(text[i]));
    if (node == ByteTrie::kNone) break;
    if (const uint32_t index = trie_.value(node); index != ByteTrie::kNone) longest = std::pair(i + 1, index);
  }
  return longest;
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::string_view plain, size_t from,
                                                    size_t taken) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (!first_[static_cast<unsigned char>(text[at])]) continue;
    const auto longest = longest_at(text, at);
    if (!longest) continue;
    const auto [end, index] = *longest;
    const AddedToken& token = tokens_[index];
    const bool hidden = token.control && plain.substr(at, end - at).find_first_not_of('\0') != std::string_view::npos;
    const bool beside_word = token.single_word && ((at > 0 && is_word(text.substr(character_before(text, 0, at)))) ||
                                                   is_word(text.substr(end)));
    if (hidden || beside_word) {
      at = end - 1;
      continue;
    }
    Match match{at, end, end, token.id};
    if (token.lstrip) match.begin = std::max(space_before(text, 0, at), taken);
    if (token.rstrip) match.end = space_after(text, end);
    return match;
  }
  return std::nullopt;
}

}  // namespace weft
