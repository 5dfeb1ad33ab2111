#include "grammar/regex_tree.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/utf8.h"
#include "grammar/grammar_builder.h"

namespace weft {
namespace {

constexpr size_t kMaxPattern = 1 << 16;

const CodePointSet& digits() {
  static const CodePointSet set{{'0', '9'}};
  return set;
}
const CodePointSet& word_characters() {
  static const CodePointSet set{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return set;
}
// ECMA-262's WhiteSpace and LineTerminator.
const CodePointSet& spaces() {
  static const CodePointSet set{{0x09, 0x0D},     {0x20, 0x20},     {0xA0, 0xA0},     {0x1680, 0x1680},
                                {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return set;
}
const CodePointSet& line_ends() {
  static const CodePointSet set{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return set;
}

class Parser {
 public:
  using Tree = RegexTree;

  Parser(std::string_view pattern, const std::string& place) : pattern_(pattern), place_(place) {}

  Tree run() {
    if (pattern_.size() > kMaxPattern) {
      throw Error(Code::bad_file,
                  "the pattern has " + std::to_string(pattern_.size()) + " bytes; Weft reads at most " +
                      std::to_string(kMaxPattern),
                  place_);
    }
    if (const size_t valid = valid_utf8_prefix(pattern_); valid < pattern_.size()) fail("this is no UTF-8 text", valid);
    Tree whole = alternatives();
    if (!at_end()) fail("')' ends a group that did not begin", position_);
    return whole;
  }

 private:
  [[noreturn]] void fail(const std::string& reason, size_t position, const std::string& hint = {},
                         Code code = Code::bad_file) const {
    const auto before = pattern_.substr(0, position);
    const auto number = 1 + std::count_if(before.begin(), before.end(),
                                          [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
    throw Error(code, "pattern " + in_quotes(pattern_) + ", character " + std::to_string(number) + ": " + reason,
                place_, hint);
  }
  [[noreturn]] void refuse(const std::string& what, size_t position, const std::string& hint = {}) const {
    fail(what + " not supported", position, hint, Code::unsupported);
  }

  bool at_end() const { return position_ == pattern_.size(); }
  bool at(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }
  bool skip(std::string_view text) {
    const bool found = at(text);
    if (found) position_ += text.size();
    return found;
  }

  Tree alternatives();
  Tree sequence();
  Tree atom();
  Tree group();
  Tree quantified(Tree tree);
  std::optional<uint32_t> count();
  static Tree characters(const CodePointSet& set) { return {Tree::Kind::characters, set, {}, 0, 0}; }
  std::optional<Tree> assertion();
  CodePointSet character_class();
  CodePointSet class_member();
  CodePointSet escape();
  char32_t hex(size_t begin, size_t least, size_t most);
  char32_t unicode_escape(size_t begin);

  std::string_view pattern_;
  const std::string& place_;
  size_t position_ = 0;
  uint32_t depth_ = 0;  // groups around position_
};

Parser::Tree Parser::alternatives() {
  Tree made{Tree::Kind::choice, {}, {}, 0, 0};
  do {
    made.parts.push_back(sequence());
  } while (skip("|"));
  if (made.parts.size() > 1) return made;
  return std::move(made.parts[0]);
}

Parser::Tree Parser::sequence() {
  Tree made;
  while (!at_end() && !at("|") && !at(")")) {
    const size_t begin = position_;
    if (auto assertion = this->assertion()) {
      if (assertion->parts.empty() && (at("*") || at("+") || at("?") || at("{")))
        fail("an anchor is not repeated", begin);
      made.parts.push_back(std::move(*assertion));
    } else {
      made.parts.push_back(quantified(atom()));
    }
  }
  return made;
}

// An anchor, a word boundary or a lookahead, if one is here.
std::optional<Parser::Tree> Parser::assertion() {
  using Kind = Tree::Kind;
  constexpr std::pair<std::string_view, Kind> kSimple[] = {
      {"^", Kind::begin}, {"$", Kind::end}, {"\\b", Kind::boundary}, {"\\B", Kind::no_boundary}};
  for (const auto& [text, kind] : kSimple) {
    if (skip(text)) return Tree{kind, {}, {}, 0, 0};
  }
  const bool negative = at("(?!");
  if (!negative && !at("(?=")) return std::nullopt;
  return Tree{negative ? Kind::not_followed : Kind::followed, {}, {group()}, 0, 0};
}

Parser::Tree Parser::atom() {
  switch (pattern_[position_]) {
    case '(':
      return group();
    case '[':
      return characters(character_class());
    case '.':
      ++position_;
      return characters(line_ends().inverse());
    case '\\':
      return characters(escape());
    case '*':
    case '+':
    case '?':
      fail("there is nothing to repeat", position_);
    case '{':
      fail("there is nothing to repeat", position_, "a brace itself is \\{");
    default: {
      const Utf8Char c = first_utf8(pattern_.substr(position_));
      position_ += c.size;
      return characters({{c.code, c.code}});
    }
  }
}

Parser::Tree Parser::group() {
  const size_t begin = position_;
  if (at("(?<=") || at("(?<!")) refuse("lookbehind is", begin);
  if (depth_ == GrammarBuilder::kMaxNesting) {
    fail("groups are nested more than " + std::to_string(GrammarBuilder::kMaxNesting) + " deep", begin);
  }
  if (skip("(?<")) {
    const size_t end = pattern_.find('>', position_);
    if (end == std::string_view::npos || end == position_)
      fail("a group's name should stand here, and then '>'", position_);
    position_ = end + 1;
  } else if (!skip("(?:") && !skip("(?=") && !skip("(?!")) {
    if (at("(?")) refuse("this kind of group, '(?', is", begin, "groups may begin with '(', '(?:' or '(?<name>'");
    ++position_;
  }
  ++depth_;
  Tree inside = alternatives();
  --depth_;
  if (!skip(")")) fail("the group does not end", begin);
  return inside;
}

// Applies the quantifier that follows, if there is one: * + ? {m} {m,} {m,n}.
Parser::Tree Parser::quantified(Tree tree) {
  constexpr uint32_t kUnbounded = UINT32_MAX;
  const size_t begin = position_;
  uint32_t least = 0, most = kUnbounded;
  if (skip("+")) {
    least = 1;
  } else if (skip("?")) {
    most = 1;
  } else if (skip("{")) {
    const auto first = count();
    if (!first) fail("a count should stand here", position_, "a brace itself is \\{");
    least = *first;
    most = skip(",") ? count().value_or(kUnbounded) : least;
    if (!skip("}")) fail("'}' should stand here", position_, "a brace itself is \\{");
    if (least > most)
      fail("a repetition of at least " + std::to_string(least) + " and at most " + std::to_string(most) +
               " is impossible",
           begin);
  } else if (!skip("*")) {
    return tree;
  }
  skip("?");  // lazy: the same texts match as a whole
  if (at("+")) refuse("a possessive quantifier is", begin);
  if (at("*") || at("{")) fail("there is nothing to repeat", position_);
  Tree made{Tree::Kind::repeat, {}, {}, least, most};
  made.parts.push_back(std::move(tree));
  return made;
}

std::optional<uint32_t> Parser::count() {
  const size_t begin = position_;
  uint32_t value = 0;
  for (; !at_end() && pattern_[position_] >= '0' && pattern_[position_] <= '9'; ++position_) {
    value = value * 10 + static_cast<uint32_t>(pattern_[position_] - '0');
    if (value > GrammarBuilder::kMaxRepeat) {
      fail("a repetition's count is more than " + std::to_string(GrammarBuilder::kMaxRepeat), begin);
    }
  }
  return position_ == begin ? std::nullopt : std::optional(value);
}

// ---- Characters ----

CodePointSet Parser::character_class() {
  const size_t begin = position_++;
  const bool inverse = skip("^");
  std::vector<CodePointRange> ranges;
  while (!at("]")) {
    if (at_end()) fail("the character class does not end", begin);
    if (at("[:")) refuse("a POSIX class, '[:', is", position_, "a bracket itself is \\[");
    const size_t first = position_;
    const CodePointSet low = class_member();
    ranges.insert(ranges.end(), low.ranges().begin(), low.ranges().end());
    if (!at("-") || at("-]") || position_ + 1 == pattern_.size()) continue;
    ++position_;
    const CodePointSet high = class_member();
    const auto one = [](const CodePointSet& set) {
      return set.ranges().size() == 1 && set.ranges()[0].low == set.ranges()[0].high;
    };
    if (!one(low) || !one(high) || low.ranges()[0].low > high.ranges()[0].low) {
      fail(in_quotes(pattern_.substr(first, position_ - first)) + " is no range of characters", first);
    }
    ranges.push_back({low.ranges()[0].low, high.ranges()[0].low});
  }
  ++position_;
  CodePointSet set(std::move(ranges));
  if (inverse) set = set.inverse();
  if (set.empty()) fail("the character class has no characters", begin);
  return set;
}

CodePointSet Parser::class_member() {
  if (at("\\b")) {
    position_ += 2;
    return {{0x08, 0x08}};
  }
  if (at("\\-")) {
    position_ += 2;
    return {{'-', '-'}};
  }
  if (at("\\")) return escape();
  const Utf8Char c = first_utf8(pattern_.substr(position_));
  position_ += c.size;
  return {{c.code, c.code}};
}

CodePointSet Parser::escape() {
  const size_t begin = position_++;
  if (at_end()) fail("the pattern ends within an escape", begin);
  const char kind = pattern_[position_++];
  const auto one = [](char32_t code) { return CodePointSet{{code, code}}; };
  constexpr std::string_view kNames = "ntrfv", kValues = "\n\t\r\f\v";
  if (const size_t found = kNames.find(kind); found != std::string_view::npos)
    return one(static_cast<char32_t>(kValues[found]));
  switch (kind) {
    case 'd':
      return digits();
    case 'D':
      return digits().inverse();
    case 'w':
      return word_characters();
    case 'W':
      return word_characters().inverse();
    case 's':
      return spaces();
    case 'S':
      return spaces().inverse();
    case 'p':
    case 'P':
      refuse("a class by Unicode property is", begin);
    case 'k':
      refuse("a backreference is", begin);
    case 'c':
      if (at_end() || ascii_lower(pattern_[position_]) < 'a' || ascii_lower(pattern_[position_]) > 'z')
        fail("\\c and what follows it is no escape", begin);
      return one(static_cast<char32_t>(pattern_[position_++] % 32));
    case 'x':
      return one(hex(begin, 2, 2));
    case 'u':
      return one(unicode_escape(begin));
    default:
      break;
  }
  const bool digit = !at_end() && pattern_[position_] >= '0' && pattern_[position_] <= '9';
  if (kind == '0' && !digit) return one(0);
  if (kind >= '0' && kind <= '9') refuse("a backreference is", begin);
  constexpr std::string_view kPunctuation = "^$\\.*+?()[]{}|/-\"'!#%&,:;<=>@_`~ ";
  if (kPunctuation.find(kind) == std::string_view::npos) {
    fail("'\\' and what follows it is no escape", begin);
  }
  return one(static_cast<unsigned char>(kind));
}

// The value of hexadecimal digits at position_.
char32_t Parser::hex(size_t begin, size_t least, size_t most) {
  char32_t code = 0;
  size_t read = 0;
  for (; read < most && !at_end(); ++read, ++position_) {
    const int value = hex_value(pattern_[position_]);
    if (value < 0) break;
    code = code * 16 + static_cast<char32_t>(value);
  }
  if (read < least) fail("the escape has too few hexadecimal digits", begin);
  return code;
}

// \uNNNN, two of them that are a pair of surrogates, or \u{N...}; position_ is after the u.
char32_t Parser::unicode_escape(size_t begin) {
  char32_t code = 0;
  if (skip("{")) {
    code = hex(begin, 1, 6);
    if (!skip("}")) fail("the escape should end with '}'", begin);
  } else {
    code = hex(begin, 4, 4);
    if (code >= 0xD800 && code <= 0xDBFF && skip("\\u")) {
      const char32_t low = hex(begin, 4, 4);
      if (low < 0xDC00 || low > 0xDFFF) fail("the escape is half a pair of surrogates", begin);
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) fail("the escape is no character", begin);
  return code;
}

}  // namespace

bool RegexTree::has_assertions() const {
  if (kind == Kind::begin || kind == Kind::end || kind == Kind::boundary || kind == Kind::no_boundary ||
      kind == Kind::followed || kind == Kind::not_followed)
    return true;
  return std::any_of(parts.begin(), parts.end(), [](const RegexTree& part) { return part.has_assertions(); });
}

RegexTree parse_regex(std::string_view pattern, const std::string& place) { return Parser(pattern, place).run(); }

}  // namespace weft
