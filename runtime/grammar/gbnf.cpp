// GBNF, the grammar notation of llama.cpp (https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md), and
// %json SCHEMA for the values of a JSON schema.
#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "grammar/grammar.h"
#include "grammar/grammar_builder.h"
#include "grammar/json_schema.h"

namespace weft {
namespace {

constexpr size_t kMaxText = 1 << 20;
constexpr uint32_t kMaxChained = 4;  // repetitions of repetitions without brackets, as in x?*

bool is_name_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& place) : text_(text), place_(place), builder_(place) {}
  Grammar run();

 private:
  using Expr = GrammarBuilder::Expr;

  struct Rule {
    GrammarBuilder::Rule id = 0;
    size_t used = 0;                // where it is first named
    std::optional<size_t> defined;  // where it is defined
  };

  size_t line(size_t position) const;
  std::string place_at(size_t position) const;
  [[noreturn]] void fail(const std::string& sentence, size_t position, const std::string& hint = {}) const {
    throw Error(Code::bad_file, sentence, place_at(position), hint);
  }
  // "'x'" or "the end of the text": what stands here, for errors.
  std::string found() const;

  bool at_end() const { return position_ == text_.size(); }
  // 0 at the end, and for zero bytes.
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  bool at_line_end() const { return peek() == '\n' || peek() == '\r'; }
  bool skip(std::string_view text);
  // Also comments. newlines: whether to go on in the next line.
  void skip_spaces(bool newlines);

  std::string_view name();
  Rule& rule(std::string_view name, size_t position);
  void definition();
  Expr alternatives(uint32_t depth);
  Expr sequence(uint32_t depth);
  Expr symbol(uint32_t depth);
  Expr group(uint32_t depth);
  Expr repetition(Expr expr, uint32_t chained);
  uint32_t count();
  Expr literal();
  Expr schema();
  Expr character_class();
  char32_t character();
  char32_t escape();

  std::string_view text_;
  const std::string& place_;
  GrammarBuilder builder_;
  size_t position_ = 0;
  std::vector<size_t> lines_;  // where each begins
  std::map<std::string, Rule, std::less<>> rules_;
};

// ---- Places ----

size_t Parser::line(size_t position) const {
  return static_cast<size_t>(std::upper_bound(lines_.begin(), lines_.end(), position) - lines_.begin());
}

std::string Parser::place_at(size_t position) const {
  const size_t number = line(position);
  const std::string_view before = text_.substr(lines_[number - 1], position - lines_[number - 1]);
  // Columns count characters.
  const auto column = 1 + std::count_if(before.begin(), before.end(),
                                        [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return place_ + ":" + std::to_string(number) + ":" + std::to_string(column);
}

std::string Parser::found() const {
  if (at_end()) return "the end of the text";
  if (at_line_end()) return "the end of the line";
  if (static_cast<unsigned char>(peek()) < 0x20) return "a control character";
  return in_quotes(text_.substr(position_, first_utf8(text_.substr(position_)).size));
}

// ---- Between symbols ----

bool Parser::skip(std::string_view text) {
  const bool found = text_.substr(position_).starts_with(text);
  if (found) position_ += text.size();
  return found;
}

void Parser::skip_spaces(bool newlines) {
  for (; !at_end(); ++position_) {
    if (peek() == '#') position_ = std::min(text_.find('\n', position_), text_.size());
    const bool space = at_line_end() ? newlines : peek() == ' ' || peek() == '\t';
    if (at_end() || !space) return;
  }
}

std::string_view Parser::name() {
  const size_t begin = position_;
  while (is_name_part(peek())) ++position_;
  return text_.substr(begin, position_ - begin);
}

Parser::Rule& Parser::rule(std::string_view name, size_t position) {
  auto it = rules_.find(name);
  if (it == rules_.end()) {
    it = rules_.emplace(std::string(name), Rule{builder_.declare(std::string(name)), position, {}}).first;
  }
  return it->second;
}

// ---- Rules ----

Grammar Parser::run() {
  if (text_.size() > kMaxText) {
    throw Error(
        Code::bad_file,
        "the grammar has " + std::to_string(text_.size()) + " bytes; Weft reads at most " + std::to_string(kMaxText),
        place_);
  }
  lines_ = {0};
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') lines_.push_back(i + 1);
  }
  if (const size_t valid = valid_utf8_prefix(text_); valid < text_.size()) fail("this is no UTF-8 text", valid);
  skip_spaces(true);
  if (at_end()) throw Error(Code::bad_file, "the grammar is empty: it has no rules", place_);
  while (!at_end()) definition();
  for (const auto& [name, rule] : rules_) {
    if (!rule.defined) fail("rule " + in_quotes(name) + " is used but not defined", rule.used);
  }
  const auto root = rules_.find("root");
  if (root == rules_.end()) {
    throw Error(Code::bad_file, "there is no rule 'root', which is what the whole text has to match", place_);
  }
  return builder_.finish(root->second.id);
}

// name ::= alternatives, to the end of the line
void Parser::definition() {
  const size_t begin = position_;
  const std::string_view defined = name();
  if (defined.empty()) fail("a rule should begin here, but there is " + found(), begin);
  skip_spaces(false);
  if (!skip("::=")) fail("'::=' should follow the rule's name, but there is " + found(), position_);
  skip_spaces(true);
  Rule& known = rule(defined, begin);
  if (known.defined) {
    fail("rule " + in_quotes(defined) + " is defined a second time; the first is in line " +
             std::to_string(line(*known.defined)),
         begin);
  }
  known.defined = begin;
  builder_.define(known.id, place_at(begin), alternatives(0));
  if (!at_end() && !at_line_end()) fail("the rule should go on or end here, but there is " + found(), position_);
  skip_spaces(true);
}

Parser::Expr Parser::alternatives(uint32_t depth) {
  std::vector<Expr> options = {sequence(depth)};
  while (skip("|")) {
    skip_spaces(true);
    options.push_back(sequence(depth));
  }
  return options.size() == 1 ? options[0] : builder_.choice(std::move(options));
}

// depth: brackets around it. Outside of all, it ends with the line.
Parser::Expr Parser::sequence(uint32_t depth) {
  std::vector<Expr> parts;
  while (true) {
    if (peek() == '<') {
      throw Error(Code::unsupported, "tokens in a grammar, '<...>', are not supported", place_at(position_),
                  "write the text that the token stands for");
    }
    if (peek() == '\0' || (std::string_view("\"[(.%").find(peek()) == std::string_view::npos && !is_name_part(peek())))
      break;
    Expr part = symbol(depth);
    skip_spaces(depth > 0);
    for (uint32_t chained = 0; peek() != '\0' && std::string_view("*+?{").find(peek()) != std::string_view::npos;
         ++chained) {
      part = repetition(part, chained);
      skip_spaces(depth > 0);
    }
    parts.push_back(part);
  }
  return parts.size() == 1 ? parts[0] : builder_.sequence(std::move(parts));
}

Parser::Expr Parser::symbol(uint32_t depth) {
  switch (peek()) {
    case '"':
      return literal();
    case '[':
      return character_class();
    case '(':
      return group(depth);
    case '%':
      return schema();
    case '.':
      ++position_;
      return builder_.character(CodePointSet::all());
    default: {
      const size_t begin = position_;
      return builder_.call(rule(name(), begin).id);
    }
  }
}

Parser::Expr Parser::group(uint32_t depth) {
  const size_t begin = position_++;
  if (depth == GrammarBuilder::kMaxNesting) {
    fail("groups are nested more than " + std::to_string(GrammarBuilder::kMaxNesting) + " deep", begin);
  }
  skip_spaces(true);
  const Expr inside = alternatives(depth + 1);
  if (!skip(")")) {
    fail("')' should end the group of line " + std::to_string(line(begin)) + " here, but there is " + found(),
         position_);
  }
  return inside;
}

// * + ? {m} {m,} or {m,n}. chained: how many others stand before it.
Parser::Expr Parser::repetition(Expr expr, uint32_t chained) {
  constexpr uint32_t kUnbounded = GrammarBuilder::kUnbounded;
  const size_t begin = position_;
  if (chained == kMaxChained)
    fail("more than " + std::to_string(kMaxChained) + " repetitions follow one another", begin);
  if (skip("*")) return builder_.repeat(expr, 0, kUnbounded);
  if (skip("+")) return builder_.repeat(expr, 1, kUnbounded);
  if (skip("?")) return builder_.optional(expr);
  ++position_;  // {
  skip_spaces(false);
  const uint32_t least = count();
  uint32_t most = least;
  skip_spaces(false);
  if (skip(",")) {
    skip_spaces(false);
    most = peek() == '}' ? kUnbounded : count();
    skip_spaces(false);
  }
  if (!skip("}")) fail("'}' should end the repetition here, but there is " + found(), position_);
  if (least > most) {
    fail(
        "a repetition of at least " + std::to_string(least) + " and at most " + std::to_string(most) + " is impossible",
        begin);
  }
  return builder_.repeat(expr, least, most);
}

uint32_t Parser::count() {
  const size_t begin = position_;
  uint32_t value = 0;
  for (; peek() >= '0' && peek() <= '9'; ++position_) {
    value = value * 10 + static_cast<uint32_t>(peek() - '0');
    if (value > GrammarBuilder::kMaxRepeat) {
      fail("a repetition's count is more than " + std::to_string(GrammarBuilder::kMaxRepeat), begin);
    }
  }
  if (position_ == begin) fail("a count should stand here, but there is " + found(), begin);
  return value;
}

// ---- Terminals ----

Parser::Expr Parser::literal() {
  const size_t begin = position_++;
  std::string bytes;
  while (peek() != '"') {
    if (at_end() || at_line_end()) fail("the literal does not end in its line", begin, "a line break in it is \\n");
    append_utf8(bytes, character());
  }
  ++position_;
  return builder_.literal(bytes);
}

// %json and a schema, which ends with its last bracket.
Parser::Expr Parser::schema() {
  const size_t begin = position_;
  if (!skip("%json")) fail("only 'json' may follow '%'", begin);
  skip_spaces(false);
  const size_t first = position_;
  size_t depth = 0;
  for (bool quoted = false; position_ < text_.size(); ++position_) {
    if (quoted && peek() == '\\') {
      ++position_;
    } else if (peek() == '"') {
      quoted = !quoted;
    } else if (!quoted && (peek() == '{' || peek() == '[')) {
      ++depth;
    } else if (!quoted && (peek() == '}' || peek() == ']') && depth > 0 && --depth == 0) {
      ++position_;
      break;
    } else if (depth == 0) {
      break;
    }
  }
  position_ = std::min(position_, text_.size());
  if (position_ == first || depth > 0) fail("a JSON schema should follow '%json', an object to its end", begin);
  return builder_.call(add_json_schema(builder_, text_.substr(first, position_ - first), place_at(begin)));
}

Parser::Expr Parser::character_class() {
  const size_t begin = position_++;
  const bool inverse = skip("^");
  std::vector<CodePointRange> ranges;
  while (peek() != ']') {
    if (at_end() || at_line_end()) fail("the character class does not end in its line", begin);
    const size_t first = position_;
    CodePointRange range;
    range.low = range.high = character();
    if (peek() == '-' && !text_.substr(position_).starts_with("-]")) {
      ++position_;
      if (at_end() || at_line_end()) continue;
      range.high = character();
      if (range.high < range.low) {
        fail("the range " + in_quotes(text_.substr(first, position_ - first)) + " ends before it begins", first);
      }
    }
    ranges.push_back(range);
  }
  ++position_;
  CodePointSet set(std::move(ranges));
  if (inverse) set = set.inverse();
  if (set.empty()) fail("the character class has no characters", begin);
  return builder_.character(set);
}

// One character of a literal or a class.
char32_t Parser::character() {
  if (skip("\\")) return escape();
  const Utf8Char c = first_utf8(text_.substr(position_));
  position_ += c.size;
  return c.code;
}

// After its backslash.
char32_t Parser::escape() {
  const size_t begin = position_ - 1;
  if (at_end()) fail("the text ends within an escape", begin);
  const char kind = text_[position_++];
  constexpr std::string_view kNames = "ntr\\\"[]", kValues = "\n\t\r\\\"[]";
  if (const size_t simple = kNames.find(kind); simple != std::string_view::npos) {
    return static_cast<unsigned char>(kValues[simple]);
  }
  const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0) {
    --position_;
    fail("an escape '\\' is followed by " + found(), begin,
         "known are \\n \\t \\r \\\\ \\\" \\[ \\] \\xNN \\uNNNN \\UNNNNNNNN");
  }
  uint64_t code = 0;
  for (size_t i = 0; i < digits; ++i, ++position_) {
    const int value = hex_value(peek());
    if (value < 0) {
      fail(std::string("\\") + kind + " should be followed by " + std::to_string(digits) +
               " hexadecimal digits, but there is " + found(),
           begin);
    }
    code = code * 16 + static_cast<uint64_t>(value);
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    fail("the escape " + in_quotes(text_.substr(begin, position_ - begin)) + " is no character", begin);
  }
  return static_cast<char32_t>(code);
}

}  // namespace

Grammar Grammar::from_gbnf(std::string_view text, const std::string& place) { return Parser(text, place).run(); }

}  // namespace weft
