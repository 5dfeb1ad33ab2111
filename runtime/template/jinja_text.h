// Python's string operations on texts that keep the origin of every byte. Positions and counts are of characters; a
// byte that is no UTF-8 is a character of its own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "template/jinja_value.h"

namespace weft::jinja {

// Finds a text in another from a position on, as std::string::find, but always in time proportional to their sizes.
size_t find_bytes(std::string_view text, std::string_view wanted, size_t from = 0);
size_t rfind_bytes(std::string_view text, std::string_view wanted);  // likewise

// Byte offsets where the characters begin, and the size at the end.
std::vector<size_t> character_offsets(const Text& text, Context& context);
// The characters; U+FFFD for bytes that are none.
std::vector<char32_t> code_points(const Text& text, Context& context);

// The properties that Python's str.isalpha() and its like ask for.
enum class CharacterKind { alphabetic, alphanumeric, decimal, digit, numeric, space, printable, ascii };
bool is_of_kind(char32_t code, CharacterKind kind);

enum class Case { upper, lower, title };
// A character of a text, at a position in bytes, in a case; it may become several.
std::string in_case(std::string_view text, size_t at, char32_t code, Case wanted);
// The first character in one case, all others in another.
Text with_case(const Text& text, Case first, Case rest, Context& context);
inline Text upper(const Text& text, Context& context) { return with_case(text, Case::upper, Case::upper, context); }
inline Text lower(const Text& text, Context& context) { return with_case(text, Case::lower, Case::lower, context); }
inline Text capitalize(const Text& text, Context& context) {
  return with_case(text, Case::title, Case::lower, context);
}
// str.islower() or str.isupper(): some characters have a case, and all of these this one.
bool all_cased(const Text& text, Case wanted, Context& context);
Text swap_case(const Text& text, Context& context);
// str.title(): every run of letters. With word_starts: Jinja's filter, words begin after a space or one of "-({[<".
Text title(const Text& text, bool word_starts, Context& context);

enum class Side { left, right, both };
// chars: the characters to strip; nullptr: white space.
Text strip(const Text& text, const Text* chars, Side side, Context& context);
// limit: the most replacements or cuts, below 0 for all.
Text replace(const Text& text, const Text& from, const Text& to, int64_t limit, Context& context);
// separator: nullptr splits at runs of white space.
std::vector<Text> split(const Text& text, const Text* separator, int64_t limit, Context& context);
std::vector<Text> split_right(const Text& text, const Text* separator, int64_t limit, Context& context);
std::vector<Text> split_lines(const Text& text, bool keep_ends, Context& context);
// Adds characters at the left and right up to a width.
Text pad(const Text& text, int64_t left, int64_t right, const Text& fill, Context& context);
Text center(const Text& text, int64_t width, const Text& fill, Context& context);
Text repeat(const Text& text, int64_t count, Context& context);
Text indent(const Text& text, const Text& indention, bool first, bool blank, Context& context);
Text escape_html(const Text& text, Context& context);
// The value as text with "<" and its like escaped, unless it is markup already.
Text escaped(const Value& value, Context& context);

std::string python_float(double value);
Text python_repr(const Text& text, Context& context);
Text json_string(const Text& text, bool ascii, Context& context);

}  // namespace weft::jinja
