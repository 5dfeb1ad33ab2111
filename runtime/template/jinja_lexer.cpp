#include "template/jinja_lexer.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"

namespace weft::jinja {

namespace {

constexpr size_t kMaxSource = 1 << 20;
constexpr std::string_view kSpaces = " \t\n\r\v\f";

bool is_space(char c) { return kSpaces.find(c) != std::string_view::npos; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c); }

std::string normalize_newlines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& place) : source_(source), place_(place) {}
  std::vector<Token> run();

 private:
  [[noreturn]] void fail(const std::string& sentence) const {
    throw Error(Code::bad_file, sentence, template_place(place_, line_));
  }
  bool at(std::string_view text) const { return source_.substr(pos_).starts_with(text); }
  char peek(size_t ahead = 0) const { return pos_ + ahead < source_.size() ? source_[pos_ + ahead] : '\0'; }
  // Moves on, counting lines.
  void skip(size_t count);
  void skip_spaces();
  void push(TokenType type, std::string text = {});
  void push_data(size_t begin, size_t end, char sign, bool variable);
  void lex_comment();
  bool lex_raw();
  void lex_tag(bool variable);
  bool lex_tag_end(bool variable);
  void lex_token();
  void lex_number();
  bool lex_based_number();
  void lex_string();
  char32_t lex_escape();

  std::string_view source_;
  const std::string& place_;
  size_t pos_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;  // nothing but a newline stands before pos_
  std::string open_;           // brackets open in the current tag
  std::vector<Token> tokens_;
};

void Lexer::skip(size_t count) {
  const std::string_view passed = source_.substr(pos_, count);
  line_ += static_cast<uint32_t>(std::count(passed.begin(), passed.end(), '\n'));
  pos_ += passed.size();
  if (!passed.empty()) line_starting_ = passed.back() == '\n';
}

void Lexer::skip_spaces() {
  size_t count = 0;
  while (pos_ + count < source_.size() && is_space(source_[pos_ + count])) ++count;
  skip(count);
}

void Lexer::push(TokenType type, std::string text) {
  Token token;
  token.type = type;
  token.text = std::move(text);
  token.line = line_;
  tokens_.push_back(std::move(token));
}

// The text before a tag: "-" in the tag strips all white space at its end, and a block or comment that stands first on
// its line loses the spaces before it unless it has "+".
void Lexer::push_data(size_t begin, size_t end, char sign, bool variable) {
  std::string_view data = source_.substr(begin, end - begin);
  if (sign == '-') {
    const size_t last = data.find_last_not_of(kSpaces);
    data = data.substr(0, last == std::string_view::npos ? 0 : last + 1);
  } else if (sign != '+' && !variable) {
    const size_t newline = data.rfind('\n');
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    if ((line > 0 || line_starting_) && data.find_first_not_of(kSpaces, line) == std::string_view::npos)
      data = data.substr(0, line);
  }
  if (!data.empty()) push(TokenType::data, std::string(data));
}

std::vector<Token> Lexer::run() {
  while (pos_ < source_.size()) {
    size_t tag = pos_;
    while ((tag = source_.find('{', tag)) != std::string_view::npos) {
      const char kind = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    if (tag == std::string_view::npos) {
      push(TokenType::data, std::string(source_.substr(pos_)));
      break;
    }
    const char kind = source_[tag + 1];
    const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const bool is_signed = after == '-' || after == '+';
    push_data(pos_, tag, is_signed ? after : '\0', kind == '{');
    skip(tag - pos_);
    skip(is_signed ? 3 : 2);
    if (kind == '#') {
      lex_comment();
    } else if (kind == '{' || !lex_raw()) {
      lex_tag(kind == '{');
    }
  }
  push(TokenType::end);
  return std::move(tokens_);
}

void Lexer::lex_comment() {
  const size_t end = source_.find("#}", pos_);
  if (end == std::string_view::npos) fail("a comment {# is never closed");
  const bool strip = end > pos_ && source_[end - 1] == '-', keep = end > pos_ && source_[end - 1] == '+';
  skip(end + 2 - pos_);
  if (strip) {
    skip_spaces();
  } else if (!keep && peek() == '\n') {
    skip(1);
  }
}

// {% raw %}: text up to {% endraw %} as it stands.
bool Lexer::lex_raw() {
  size_t at_name = source_.find_first_not_of(kSpaces, pos_);
  if (at_name == std::string_view::npos || !source_.substr(at_name).starts_with("raw")) return false;
  const size_t close = source_.find_first_not_of(kSpaces, at_name + 3);
  if (close == std::string_view::npos) return false;
  const bool strip = source_.substr(close).starts_with("-%}");
  if (!strip && !source_.substr(close).starts_with("%}")) return false;
  skip(close + (strip ? 3 : 2) - pos_);
  if (strip) skip_spaces();
  for (size_t tag = pos_; (tag = source_.find("{%", tag)) != std::string_view::npos; ++tag) {
    size_t name = tag + 2;
    const char sign = name < source_.size() && (source_[name] == '-' || source_[name] == '+') ? source_[name] : '\0';
    if (sign != '\0') ++name;
    name = source_.find_first_not_of(kSpaces, name);
    if (name == std::string_view::npos || !source_.substr(name).starts_with("endraw")) continue;
    push_data(pos_, tag, sign, false);
    skip(name + 6 - pos_);
    skip_spaces();
    if (!lex_tag_end(false)) fail("{% endraw holds more than its name");
    tokens_.pop_back();
    return true;
  }
  fail("a {% raw %} is never closed");
}

bool Lexer::lex_tag_end(bool variable) {
  const std::string_view close = variable ? "}}" : "%}";
  const char sign = peek();
  const bool strip = sign == '-', keep = sign == '+' && !variable;
  if (!source_.substr(std::min(source_.size(), pos_ + (strip || keep ? 1 : 0))).starts_with(close)) return false;
  push(variable ? TokenType::variable_end : TokenType::block_end);
  skip(strip || keep ? 3 : 2);
  if (strip) {
    skip_spaces();
  } else if (!keep && !variable && peek() == '\n') {
    skip(1);
  }
  return true;
}

void Lexer::lex_tag(bool variable) {
  push(variable ? TokenType::variable_begin : TokenType::block_begin);
  open_.clear();
  while (true) {
    skip_spaces();
    if (pos_ >= source_.size()) fail(variable ? "a {{ is never closed" : "a {% is never closed");
    if (open_.empty() && lex_tag_end(variable)) return;
    lex_token();
  }
}

void Lexer::lex_token() {
  const char c = peek();
  if (is_digit(c)) return lex_number();
  if (c == '\'' || c == '"') return lex_string();
  if (is_name_start(c)) {
    size_t size = 1;
    while (is_name_part(peek(size))) ++size;
    push(TokenType::name, std::string(source_.substr(pos_, size)));
    return skip(size);
  }
  for (const std::string_view op : {"//", "**", "==", "!=", "<=", ">="}) {
    if (!at(op)) continue;
    push(TokenType::op, std::string(op));
    return skip(2);
  }
  constexpr std::string_view kOps = "+-*/%~[](){}<>=.:|,";
  if (c == '\0' || kOps.find(c) == std::string_view::npos) {
    fail("the character " +
         in_quotes(source_.substr(pos_, std::max<size_t>(1, first_utf8(source_.substr(pos_)).size))) +
         " has no meaning in a tag");
  }
  if (c == '(' || c == '[' || c == '{') open_ += c;
  if (c == ')' || c == ']' || c == '}') {
    const char opening = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open_.empty() || open_.back() != opening) fail(std::string("a '") + c + "' closes nothing");
    open_.pop_back();
  }
  push(TokenType::op, std::string(1, c));
  skip(1);
}

// "0x1F", "0o17", "0b1": false if no such number begins here.
bool Lexer::lex_based_number() {
  const char mark = static_cast<char>(peek(1) | 0x20);
  const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (peek() != '0' || base == 0) return false;
  std::string digits;
  size_t size = 2;
  while (hex_value(peek(size)) >= 0 || peek(size) == '_') {
    if (peek(size) != '_') digits += peek(size);
    ++size;
  }
  push(TokenType::integer);
  const char* const end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, tokens_.back().integer, base);
  if (result.ec != std::errc() || result.ptr != end)
    fail("the number " + in_quotes(source_.substr(pos_, size)) + " is out of range");
  if (is_name_start(peek(size))) fail("a name begins right after a number");
  skip(size);
  return true;
}

void Lexer::lex_number() {
  if (lex_based_number()) return;
  std::string digits;
  size_t size = 0;
  bool real = false;
  while (is_digit(peek(size)) || (peek(size) == '_' && is_digit(peek(size + 1)))) {
    if (peek(size) != '_') digits += peek(size);
    ++size;
  }
  const auto take_digits = [&] {
    for (; is_digit(peek(size)) || (peek(size) == '_' && is_digit(peek(size + 1))); ++size)
      if (peek(size) != '_') digits += peek(size);
  };
  if (peek(size) == '.' && is_digit(peek(size + 1))) {
    real = true;
    digits += '.';
    ++size;
    take_digits();
  }
  const size_t sign = peek(size + 1) == '+' || peek(size + 1) == '-' ? 1 : 0;
  if ((peek(size) == 'e' || peek(size) == 'E') && is_digit(peek(size + 1 + sign))) {
    real = true;
    digits += 'e';
    if (sign == 1 && peek(size + 1) == '-') digits += '-';
    size += 1 + sign;
    take_digits();
  }
  push(real ? TokenType::real : TokenType::integer);
  Token& token = tokens_.back();
  const char* end = digits.data() + digits.size();
  bool fits = false;
  if (real) {
    const std::optional<double> value = parse_double(digits);
    fits = value.has_value();
    token.real = value.value_or(0);
  } else {
    const auto result = std::from_chars(digits.data(), end, token.integer);
    fits = result.ec == std::errc() && result.ptr == end;
  }
  if (!fits) fail("the number " + in_quotes(digits) + " is out of range");
  if (is_name_start(peek(size))) fail("a name begins right after a number");
  skip(size);
}

char32_t Lexer::lex_escape() {
  const auto hex = [&](size_t digits) {
    uint32_t code = 0;
    const std::string_view text = source_.substr(pos_, digits);
    const auto result = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    if (text.size() != digits || result.ptr != text.data() + digits || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000)) {
      fail("a string has an escape that is no character");
    }
    skip(digits);
    return static_cast<char32_t>(code);
  };
  // One to three digits.
  const auto octal = [&](char first) {
    auto code = static_cast<char32_t>(first - '0');
    for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) {
      code = code * 8 + static_cast<char32_t>(peek() - '0');
      skip(1);
    }
    return code;
  };
  const char c = peek();
  skip(1);
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
      return octal(c);
    case 'x':
      return hex(2);
    case 'u':
      return hex(4);
    case 'U':
      return hex(8);
    default:
      return static_cast<unsigned char>(c);
  }
}

void Lexer::lex_string() {
  const char quote = peek();
  push(TokenType::string);
  const size_t index = tokens_.size() - 1;
  std::string value;
  skip(1);
  while (true) {
    if (pos_ >= source_.size()) fail("a string is never closed");
    const char c = peek();
    if (c == quote) break;
    if (c != '\\') {
      value += c;
      skip(1);
      continue;
    }
    skip(1);
    constexpr std::string_view kEscapes = "ntrbfva01234567xuU\\'\"";
    if (peek() == 'N') fail("a character by its name (\\N) is not supported");
    if (peek() == '\n') {  // goes on in the next line
      skip(1);
    } else if (kEscapes.find(peek()) == std::string_view::npos) {
      value += '\\';  // Python keeps an escape it does not know
    } else if (pos_ < source_.size()) {
      append_utf8(value, lex_escape());
    }
  }
  skip(1);
  tokens_[index].text = std::move(value);
}

}  // namespace

std::string template_place(const std::string& place, uint32_t line) {
  return (place.empty() ? "" : place + ", ") + "chat template line " + std::to_string(line);
}

std::vector<Token> lex(std::string_view source, const std::string& place) {
  if (source.size() > kMaxSource) {
    throw Error(
        Code::bad_file,
        "a chat template of " + std::to_string(source.size()) + " bytes is longer than " + std::to_string(kMaxSource),
        place);
  }
  const std::string text = normalize_newlines(source);
  return Lexer(text, place).run();
}

}  // namespace weft::jinja
