#include "template/jinja_text.h"

#include <utf8proc.h>

#include <string.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace weft::jinja {

namespace {

// Calls visit(character, begin) for each character.
template <typename Visit>
void each_character(const Text& text, Context& context, Visit visit) {
  context.spend_bytes(4 * text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = first_utf8(std::string_view(text.bytes).substr(at));
    visit(c, at);
    at += c.size;
  }
}

void append_cased(Text& out, const Text& from, const Utf8Char& c, size_t begin, Case wanted) {
  if (!c.valid) return out.append(from, begin, c.size);
  const auto code = static_cast<utf8proc_int32_t>(c.code);
  std::string bytes;
  if (wanted == Case::upper && c.code == 0xDF) {
    bytes = "SS";
  } else {
    append_utf8(bytes, static_cast<char32_t>(wanted == Case::upper ? utf8proc_toupper(code) : utf8proc_tolower(code)));
  }
  out.append(bytes, from.taint[begin] != 0);
}

bool is_letter(const Utf8Char& c) {
  if (!c.valid) return false;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c.code));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

// What Python's str.strip() and str.split() take for white space.
bool is_python_space(const Utf8Char& c) {
  return c.valid && (is_unicode_space(c.code) || (c.code >= 0x1C && c.code <= 0x1F));
}

bool is_printable(char32_t code) {
  if (code == ' ') return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category != UTF8PROC_CATEGORY_CN && category != UTF8PROC_CATEGORY_CC && category != UTF8PROC_CATEGORY_CF &&
         category != UTF8PROC_CATEGORY_CS && category != UTF8PROC_CATEGORY_CO && category != UTF8PROC_CATEGORY_ZS &&
         category != UTF8PROC_CATEGORY_ZL && category != UTF8PROC_CATEGORY_ZP;
}

std::string hex(char32_t code, int digits) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (int i = digits - 1; i >= 0; --i) out += kDigits[(code >> (4 * i)) & 15];
  return out;
}

}  // namespace

// memmem is linear (Crochemore and Perrin, "Two-way string-matching", JACM 1991), std::string::find is not.
size_t find_bytes(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string::npos;
  if (wanted.empty()) return from;
  const void* const hit = ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return hit == nullptr ? std::string::npos : static_cast<size_t>(static_cast<const char*>(hit) - text.data());
}

size_t rfind_bytes(std::string_view text, std::string_view wanted) {
  const std::string mirrored(text.rbegin(), text.rend()), other(wanted.rbegin(), wanted.rend());
  const size_t hit = find_bytes(mirrored, other);
  return hit == std::string::npos ? hit : text.size() - hit - wanted.size();
}

std::vector<size_t> character_offsets(const Text& text, Context& context) {
  std::vector<size_t> offsets;
  each_character(text, context, [&](const Utf8Char&, size_t begin) { offsets.push_back(begin); });
  offsets.push_back(text.size());
  return offsets;
}

Text with_case(const Text& text, Case first, Case rest, Context& context) {
  Text out;
  each_character(text, context,
                 [&](const Utf8Char& c, size_t at) { append_cased(out, text, c, at, at == 0 ? first : rest); });
  return out;
}

Text title(const Text& text, bool word_starts, Context& context) {
  Text out;
  bool begins = true;
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    append_cased(out, text, c, at, begins ? Case::upper : Case::lower);
    constexpr std::u32string_view kBefore = U"-({[<";
    begins = word_starts ? is_python_space(c) || (c.valid && kBefore.find(c.code) != std::u32string_view::npos)
                         : !is_letter(c);
  });
  return out;
}

Text strip(const Text& text, const Text* chars, Side side, Context& context) {
  const auto strips = [&](const Utf8Char& c, size_t at) {
    if (chars == nullptr) return is_python_space(c);
    context.spend_bytes(chars->size());
    return chars->bytes.find(text.bytes.substr(at, c.size)) != std::string::npos;
  };
  size_t begin = text.size(), end = 0;
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    if (strips(c, at)) return;
    begin = std::min(begin, at);
    end = at + c.size;
  });
  if (side == Side::right) begin = 0;
  if (side == Side::left) end = text.size();
  return begin < end ? text.substr(begin, end - begin) : Text();
}

Text replace(const Text& text, const Text& from, const Text& to, int64_t limit, Context& context) {
  if (from.size() == 0) context.unsupported("replace() of an empty string");
  context.spend_bytes(text.size());
  Text out;
  size_t at = 0;
  for (size_t hit; limit != 0 && (hit = find_bytes(text.bytes, from.bytes, at)) != std::string::npos;
       at = hit + from.size(), --limit) {
    context.spend_bytes(to.size());
    out.append(text, at, hit - at);
    out.append(to);
  }
  out.append(text, at, text.size() - at);
  return out;
}

std::vector<Text> split(const Text& text, const Text* separator, int64_t limit, Context& context) {
  std::vector<Text> out;
  if (separator != nullptr) {
    if (separator->size() == 0) context.fail("split() at an empty string");
    context.spend_bytes(text.size());
    size_t at = 0;
    for (size_t hit; limit != 0 && (hit = find_bytes(text.bytes, separator->bytes, at)) != std::string::npos; --limit) {
      context.spend(1);
      out.push_back(text.substr(at, hit - at));
      at = hit + separator->size();
    }
    out.push_back(text.substr(at, text.size() - at));
    return out;
  }
  constexpr size_t kNone = std::string::npos;
  size_t word = kNone;  // where the current word begins
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    const bool rest = limit >= 0 && static_cast<int64_t>(out.size()) >= limit;
    if (!is_python_space(c)) {
      if (word == kNone) word = at;
    } else if (word != kNone && !rest) {
      out.push_back(text.substr(word, at - word));
      word = kNone;
    }
  });
  if (word != kNone)
    out.push_back(strip(text.substr(word, text.size() - word), nullptr, limit < 0 ? Side::right : Side::left, context));
  return out;
}

std::vector<Text> split_right(const Text& text, const Text& separator, int64_t limit, Context& context) {
  if (separator.size() == 0) context.fail("rsplit() at an empty string");
  context.spend_bytes(text.size());
  std::vector<Text> out;
  const std::string mirrored(text.bytes.rbegin(), text.bytes.rend()),
      wanted(separator.bytes.rbegin(), separator.bytes.rend());
  size_t end = text.size();
  while (limit != 0 && end >= separator.size()) {
    const size_t found = find_bytes(mirrored, wanted, text.size() - end);
    if (found == std::string::npos) break;
    const size_t hit = text.size() - found - separator.size();
    context.spend(1);
    out.push_back(text.substr(hit + separator.size(), end - hit - separator.size()));
    end = hit;
    --limit;
  }
  out.push_back(text.substr(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Text> split_lines(const Text& text, Context& context) {
  std::vector<Text> out;
  size_t line = 0;
  bool after_return = false;
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    if (after_return && c.code == '\n') {  // the second half of \r\n
      line = at + 1;
      after_return = false;
      return;
    }
    after_return = c.valid && c.code == '\r';
    const bool ends = c.valid && ((c.code >= 0x0A && c.code <= 0x0D) || (c.code >= 0x1C && c.code <= 0x1E) ||
                                  c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029);
    if (!ends) return;
    context.spend(1);
    out.push_back(text.substr(line, at - line));
    line = at + c.size;
  });
  if (line < text.size()) out.push_back(text.substr(line, text.size() - line));
  return out;
}

Text repeat(const Text& text, int64_t count, Context& context) {
  Text out;
  if (text.size() == 0) return out;
  for (int64_t i = 0; i < count; ++i) {
    context.spend_bytes(text.size());
    out.append(text);
  }
  return out;
}

Text indent(const Text& text, const Text& indention, bool first, bool blank, Context& context) {
  Text ended = text;
  ended.append("\n");  // so that a newline at the end is kept
  const std::vector<Text> lines = split_lines(ended, context);
  Text out;
  for (size_t i = 0; i < lines.size(); ++i) {
    context.spend_bytes(indention.size());
    if (i > 0) out.append("\n");
    if ((i == 0 && first) || (i > 0 && (blank || lines[i].size() > 0))) out.append(indention);
    out.append(lines[i]);
  }
  return out;
}

Text escape_html(const Text& text, Context& context) {
  context.spend_bytes(4 * text.size());
  constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string_view written = std::string_view(text.bytes).substr(i, 1);
    for (const auto& [c, escape] : kEscapes)
      if (c == text.bytes[i]) written = escape;
    out.append(written, text.taint[i] != 0);
  }
  return out;
}

// float.__repr__: the shortest digits that give the value back, in scientific form outside 1e-4 to 1e16.
std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::abs(value);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value,
                                 scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string out(digits, end.ptr);
  if (!scientific && out.find('.') == std::string::npos) out += ".0";
  return out;
}

Text python_repr(const Text& text, Context& context) {
  const bool has_single = text.bytes.find('\'') != std::string::npos,
             has_double = text.bytes.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  Text out;
  out.append(std::string(1, quote));
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    const bool taint = text.taint[at] != 0;
    if (!c.valid) return out.append(text, at, c.size);
    if (c.code == '\\' || c.code == static_cast<unsigned char>(quote))
      return out.append(std::string("\\") + text.bytes[at], taint);
    if (c.code == '\n') return out.append("\\n", taint);
    if (c.code == '\r') return out.append("\\r", taint);
    if (c.code == '\t') return out.append("\\t", taint);
    if (is_printable(c.code)) return out.append(text, at, c.size);
    if (c.code < 0x100) return out.append("\\x" + hex(c.code, 2), taint);
    out.append(c.code < 0x10000 ? "\\u" + hex(c.code, 4) : "\\U" + hex(c.code, 8), taint);
  });
  out.append(std::string(1, quote));
  return out;
}

Text json_string(const Text& text, bool ascii, Context& context) {
  Text out;
  out.append("\"");
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    const bool taint = text.taint[at] != 0;
    if (!c.valid) return out.append(text, at, c.size);
    switch (c.code) {
      case '"':
        return out.append("\\\"", taint);
      case '\\':
        return out.append("\\\\", taint);
      case '\n':
        return out.append("\\n", taint);
      case '\r':
        return out.append("\\r", taint);
      case '\t':
        return out.append("\\t", taint);
      case '\b':
        return out.append("\\b", taint);
      case '\f':
        return out.append("\\f", taint);
      default:
        break;
    }
    if (c.code >= 0x20 && (!ascii || c.code < 0x7F)) return out.append(text, at, c.size);
    if (c.code < 0x10000) return out.append("\\u" + hex(c.code, 4), taint);
    const char32_t rest = c.code - 0x10000;  // as a UTF-16 pair
    out.append("\\u" + hex(0xD800 + (rest >> 10), 4) + "\\u" + hex(0xDC00 + (rest & 0x3FF), 4), taint);
  });
  out.append("\"");
  return out;
}

}  // namespace weft::jinja
