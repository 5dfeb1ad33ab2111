// SentencePiece's precompiled normalisation: a double-array trie (Aoe 1989, laid out as Darts-clone does) from texts to
// what replaces them, in front of those replacements, each ended by a zero byte. As the normalizer "Precompiled" of a
// tokenizer.json applies it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Constant after construction; any number of threads.
class Charsmap {
 public:
  static constexpr size_t kLongest = 64;  // bytes of a replacement

  // bytes: the trie's size (4 bytes, little endian), the trie, the replacements. Throws Error(bad_file).
  Charsmap(std::string_view bytes, const std::string& place);

  // A well-formed UTF-8 text, grapheme cluster by grapheme cluster: one of less than 6 bytes as a whole, if the map has
  // a text that it begins with, else character by character. Throws Error(bad_file) for a replacement that is too long.
  std::string apply(std::string_view text) const;

 private:
  std::optional<std::string_view> find(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
  std::string place_;
};

// Nothing if the text is not base64 (RFC 4648).
std::optional<std::string> from_base64(std::string_view text);

}  // namespace weft
