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

// word: where the text begins that the character's lower case depends on.
void append_cased(Text& out, const Text& from, const Utf8Char& c, size_t begin, Case wanted, size_t word = 0) {
  if (!c.valid) return out.append(from, begin, c.size);
  const std::string_view text = std::string_view(from.bytes).substr(word);
  out.append(in_case(text, begin - word, c.code, wanted), from.taint[begin] != 0);
}

// White space of Python's str.strip() and str.split().
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

// Digits that are no decimals (Numeric_Type=Digit of the Unicode Character Database).
bool is_other_digit(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
      {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
      {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
      {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [&](const auto& range) { return code >= range.first && code <= range.second; });
}

// Letters that are numbers, of the CJK scripts.
bool is_number_letter(char32_t code) {
  constexpr std::u32string_view kLetters =
      U"\u3405\u3483\u382a\u3b4d\u4e00\u4e03\u4e07\u4e09\u4e5d\u4e8c\u4e94\u4e96\u4ebf\u4ec0\u4edf"
      U"\u4ee8\u4f0d\u4f70\u5104\u5146\u5169\u516b\u516d\u5341\u5343\u5344\u5345\u534c\u53c1\u53c2"
      U"\u53c3\u53c4\u56db\u58f1\u58f9\u5e7a\u5efe\u5eff\u5f0c\u5f0d\u5f0e\u5f10\u62fe\u634c\u67d2"
      U"\u6f06\u7396\u767e\u8086\u842c\u8cae\u8cb3\u8d30\u9621\u9646\u964c\u9678\u96f6\uf96b\uf973"
      U"\uf978\uf9b2\uf9d1\uf9d3\uf9fd\U00020001\U00020064\U000200e2\U00020121\U0002092a\U00020983\U0002098c\U0002099c"
      U"\U00020aea\U00020afd"
      U"\U00020b19\U00022390\U00022998\U00023b1b\U0002626d\U0002f890";
  return kLetters.find(code) != std::u32string_view::npos;
}

enum class Cased { no, lower, upper };
Cased case_of(const Utf8Char& c) {
  const auto code = static_cast<utf8proc_int32_t>(c.code);
  if (!c.valid) return Cased::no;
  const auto category = utf8proc_category(code);
  if (category == UTF8PROC_CATEGORY_LT) return Cased::upper;
  return utf8proc_isupper(code) != 0 ? Cased::upper : utf8proc_islower(code) != 0 ? Cased::lower : Cased::no;
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

std::vector<char32_t> code_points(const Text& text, Context& context) {
  std::vector<char32_t> codes;
  each_character(text, context, [&](const Utf8Char& c, size_t) { codes.push_back(c.valid ? c.code : 0xFFFD); });
  return codes;
}

bool is_of_kind(char32_t code, CharacterKind kind) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO,
             decimal = category == UTF8PROC_CATEGORY_ND, digit = decimal || is_other_digit(code);
  const auto numeric = [&] {
    return digit || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO || is_number_letter(code);
  };
  switch (kind) {
    case CharacterKind::alphabetic:
      return letter;
    case CharacterKind::alphanumeric:
      return letter || numeric();
    case CharacterKind::decimal:
      return decimal;
    case CharacterKind::digit:
      return digit;
    case CharacterKind::numeric:
      return numeric();
    case CharacterKind::space:
      return is_unicode_space(code) || (code >= 0x1C && code <= 0x1F);
    case CharacterKind::printable:
      return is_printable(code);
    case CharacterKind::ascii:
      return code < 0x80;
  }
  return false;
}

bool all_cased(const Text& text, Case wanted, Context& context) {
  bool any = false, all = true;
  each_character(text, context, [&](const Utf8Char& c, size_t) {
    const Cased cased = case_of(c);
    const bool title = utf8proc_category(static_cast<utf8proc_int32_t>(c.code)) == UTF8PROC_CATEGORY_LT;
    const bool fits = cased == (wanted == Case::upper ? Cased::upper : Cased::lower) && !title;
    any |= fits;
    all &= fits || cased == Cased::no;
  });
  return any && all;
}

Text swap_case(const Text& text, Context& context) {
  Text out;
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    append_cased(out, text, c, at, case_of(c) == Cased::upper ? Case::lower : Case::upper);
  });
  out.markup = text.markup;
  return out;
}

Text with_case(const Text& text, Case first, Case rest, Context& context) {
  Text out;
  each_character(text, context,
                 [&](const Utf8Char& c, size_t at) { append_cased(out, text, c, at, at == 0 ? first : rest); });
  out.markup = text.markup;
  return out;
}

Text title(const Text& text, bool word_starts, Context& context) {
  Text out;
  bool begins = true;
  size_t rest = 0;  // of a word, after its first character: Jinja's filter lowers it alone
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    const Case first = word_starts ? Case::upper : Case::title;
    append_cased(out, text, c, at, begins ? first : Case::lower, word_starts && !begins ? rest : 0);
    if (begins) rest = at + c.size;
    constexpr std::u32string_view kBefore = U"-({[<";
    begins = word_starts ? is_python_space(c) || (c.valid && kBefore.find(c.code) != std::u32string_view::npos)
                         : case_of(c) == Cased::no;
  });
  out.markup = text.markup && !word_starts;
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
  return text.substr(std::min(begin, end), begin < end ? end - begin : 0);
}

Text replace(const Text& text, const Text& from, const Text& to, int64_t limit, Context& context) {
  context.spend_bytes(text.size());
  Text out;
  out.markup = text.markup;
  if (from.size() == 0) {  // before each character and at the end
    for (const size_t at : character_offsets(text, context)) {
      if (limit-- == 0) {
        out.append(text, at, text.size() - at);
        break;
      }
      context.spend_bytes(to.size());
      out.append(to);
      out.append(text, at, std::min(text.size() - at, first_utf8(std::string_view(text.bytes).substr(at)).size));
    }
    return out;
  }
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

namespace {

// The last words of a text, and what stands before them if there are more than the limit.
std::vector<Text> split_last_words(const Text& text, int64_t limit, Context& context) {
  const std::vector<size_t> offsets = character_offsets(text, context);
  const auto is_space = [&](size_t at) {
    return is_python_space(first_utf8(std::string_view(text.bytes).substr(offsets[at])));
  };
  std::vector<Text> out;
  size_t end = offsets.size() - 1;
  while (true) {
    while (end > 0 && is_space(end - 1)) --end;
    if (end == 0) break;
    size_t begin = static_cast<int64_t>(out.size()) == limit ? 0 : end;
    while (begin > 0 && !is_space(begin - 1)) --begin;
    out.push_back(text.substr(offsets[begin], offsets[end] - offsets[begin]));
    end = begin;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

std::vector<Text> split_right(const Text& text, const Text* separator, int64_t limit, Context& context) {
  if (separator == nullptr) return split_last_words(text, limit, context);
  if (separator->size() == 0) context.fail("rsplit() at an empty string");
  context.spend_bytes(text.size());
  std::vector<Text> out;
  const std::string mirrored(text.bytes.rbegin(), text.bytes.rend()),
      wanted(separator->bytes.rbegin(), separator->bytes.rend());
  size_t end = text.size();
  while (limit != 0 && end >= separator->size()) {
    const size_t found = find_bytes(mirrored, wanted, text.size() - end);
    if (found == std::string::npos) break;
    const size_t hit = text.size() - found - separator->size();
    context.spend(1);
    out.push_back(text.substr(hit + separator->size(), end - hit - separator->size()));
    end = hit;
    --limit;
  }
  out.push_back(text.substr(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends, Context& context) {
  std::vector<Text> out;
  size_t line = 0;
  each_character(text, context, [&](const Utf8Char& c, size_t at) {
    if (at < line) return;  // the second half of \r\n
    const bool ends = c.valid && ((c.code >= 0x0A && c.code <= 0x0D) || (c.code >= 0x1C && c.code <= 0x1E) ||
                                  c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029);
    if (!ends) return;
    context.spend(1);
    const size_t next = at + (text.bytes.compare(at, 2, "\r\n") == 0 ? 2 : c.size);
    out.push_back(text.substr(line, (keep_ends ? next : at) - line));
    line = next;
  });
  if (line < text.size()) out.push_back(text.substr(line, text.size() - line));
  return out;
}

Text pad(const Text& text, int64_t left, int64_t right, const Text& fill, Context& context) {
  Text out = repeat(fill, left, context);
  out.append(text);
  out.append(repeat(fill, right, context));
  out.markup = text.markup;
  return out;
}

Text center(const Text& text, int64_t width, const Text& fill, Context& context) {
  const auto size = static_cast<int64_t>(character_offsets(text, context).size()) - 1;
  const int64_t room = width > size ? width - size : 0, left = room / 2 + (room & width & 1);
  return pad(text, left, room - left, fill, context);
}

Text repeat(const Text& text, int64_t count, Context& context) {
  Text out;
  out.markup = text.markup;
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
  const std::vector<Text> lines = split_lines(ended, false, context);
  Text out;
  out.markup = text.markup;
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
  out.markup = true;
  return out;
}

Text escaped(const Value& value, Context& context) {
  Text text = to_text(value, context);
  return text.markup ? text : escape_html(text, context);
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
