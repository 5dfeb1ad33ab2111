// UTF-8 one character at a time, for text that may hold any bytes (The Unicode Standard, chapter 3, table 3-7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// U+FFFD REPLACEMENT CHARACTER.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The first character of a text, or the bytes there that are none.
struct Utf8Char {
  char32_t code = 0;        // the code point if valid
  size_t size = 0;          // bytes; if invalid, of the maximal subpart that one U+FFFD stands for; 0 for an empty text
  bool valid = false;       // well-formed
  bool incomplete = false;  // not valid, but the text ends here and more bytes could still make it a character
};

Utf8Char first_utf8(std::string_view text);

void append_utf8(std::string& text, char32_t code);

// How many bytes at the front of a text are well-formed.
size_t valid_utf8_prefix(std::string_view text);

// The text with every maximal ill-formed subpart replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// A text from a file in quotes, to stand in an error's sentence: valid UTF-8 and cut to a readable length.
std::string in_quotes(std::string_view text);

// The value of a hexadecimal digit; -1 for other characters.
int hex_value(char c);

// The White_Space property, as in Python's str.strip() and \s of the common regex dialects (except U+001C to U+001F,
// which are white space only in Python).
bool is_unicode_space(char32_t code);

}  // namespace weft
