// Regular expressions as grammars: tables, and random patterns against std::regex.
#include <random>
#include <regex>

#include "grammar/regex_automaton.h"
#include "grammar/regex_grammar.h"
#include "grammar_support.h"

namespace weft {
namespace {

using test::byte_matcher;
using test::error_of;
using test::matches;

TEST(GrammarRegex, MatchesTheWholeText) {
  struct Case {
    const char* pattern;
    std::vector<std::string> yes, no;
  };
  const std::vector<Case> cases = {
      {"abc", {"abc"}, {"ab", "abcd", "xabc"}},
      {"^abc$", {"abc"}, {"ab", "abcd", "xabc"}},
      {"^a|b$", {"a", "b"}, {"ab", ""}},
      {"", {""}, {"a"}},
      {"a|", {"a", ""}, {"b"}},
      {"(?!x)(((){100000}){9,100000}){100000}b", {"b"}, {"", "bb"}},
      {"(?!x)((){2,3}a(){5}){2}", {"aa"}, {"a", "aaa"}},
      {"(a|bc)*d?", {"", "abca", "bcd", "d"}, {"b", "dd"}},
      {"(?:ab){2,3}", {"abab", "ababab"}, {"ab", "abababab"}},
      {"(?<year>\\d{4})-\\d{2}",
       {"2024-01"},
       {"24-01", "2024-1",
        "\xD9\xA1"
        "024-01"}},
      {"a{2}b{1,}c{0,1}", {"aab", "aabbc"}, {"ab", "aac", "aabcc"}},
      {"[a-c\\d_-]+", {"a1_-", "-"}, {"", "d"}},
      {"[^a-c]", {"d", "\xC3\xA9", "\n"}, {"a", "de"}},
      {"[\\]\\^\\\\\\b.*]+", {"]^\\\b.*"}, {"a", "b"}},
      {".", {"a", "\xF0\x9F\x98\x80"}, {"\n", "\r", "\xE2\x80\xA8", ""}},
      {"\\w\\W\\s\\S\\D",
       {"a-\t.x",
        "_ \xC2\xA0"
        "9\n"},
       {"--\t.x", "a-\t.1"}},
      {"\\.\\*\\/\\n\\t\\0\\x41\\u00e9\\u{1F600}\\uD83D\\uDE00",
       {std::string(".*/\n\t\0A\xC3\xA9\xF0\x9F\x98\x80\xF0\x9F\x98\x80", 17)},
       {".*/"}},
      {"\xC3\xA9+", {"\xC3\xA9\xC3\xA9"}, {"\xC3\xA9\xA9", ""}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.pattern);
    Matcher matcher = byte_matcher(Grammar::from_regex(c.pattern, "r"));
    for (const std::string& text : c.yes) EXPECT_TRUE(matches(matcher, text)) << testing::PrintToString(text);
    for (const std::string& text : c.no) EXPECT_FALSE(matches(matcher, text)) << testing::PrintToString(text);
  }
}

TEST(GrammarRegex, ErrorsNameWhatIsNotSupported) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a(?=b)", "r: no text matches pattern 'a(?=b)'"},
      {"a(?=^b)b", "r: '^' and word boundaries within a lookahead are not supported"},
      {"\xC3\xA9(?<=b)", "r: pattern '\xC3\xA9(?<=b)', character 2: lookbehind is not supported"},
      {"(?<!b)", "r: pattern '(?<!b)', character 1: lookbehind is not supported"},
      {"(a)\\1", "r: pattern '(a)\\1', character 4: a backreference is not supported"},
      {"(?<x>a)\\k<x>", "r: pattern '(?<x>a)\\k<x>', character 8: a backreference is not supported"},
      {"\\p{L}", "r: pattern '\\p{L}', character 1: a class by Unicode property is not supported"},
      {"(?i)a",
       "r: pattern '(?i)a', character 1: this kind of group, '(?', is not supported (groups may begin with '(', "
       "'(?:' or '(?<name>')"},
      {"a++", "r: pattern 'a++', character 2: a possessive quantifier is not supported"},
      {"a**", "r: pattern 'a**', character 3: there is nothing to repeat"},
      {"*a", "r: pattern '*a', character 1: there is nothing to repeat"},
      {"a|{2}", "r: pattern 'a|{2}', character 3: there is nothing to repeat (a brace itself is \\{)"},
      {"a{x}", "r: pattern 'a{x}', character 3: a count should stand here (a brace itself is \\{)"},
      {"a{3,2}", "r: pattern 'a{3,2}', character 2: a repetition of at least 3 and at most 2 is impossible"},
      {"a{100001}", "r: pattern 'a{100001}', character 3: a repetition's count is more than 100000"},
      {"a^b", "r: no text matches pattern 'a^b'"},
      {"a$b", "r: no text matches pattern 'a$b'"},
      {"^*", "r: pattern '^*', character 1: an anchor is not repeated"},
      {"(a", "r: pattern '(a', character 1: the group does not end"},
      {"a)", "r: pattern 'a)', character 2: ')' ends a group that did not begin"},
      {"[a", "r: pattern '[a', character 1: the character class does not end"},
      {"[]", "r: pattern '[]', character 1: the character class has no characters"},
      {"[z-a]", "r: pattern '[z-a]', character 2: 'z-a' is no range of characters"},
      {"[\\d-z]", "r: pattern '[\\d-z]', character 2: '\\d-z' is no range of characters"},
      {"[[:alpha:]]",
       "r: pattern '[[:alpha:]]', character 2: a POSIX class, '[:', is not supported (a bracket itself is \\[)"},
      {"\\q", "r: pattern '\\q', character 1: '\\' and what follows it is no escape"},
      {"\\", "r: pattern '\\', character 1: the pattern ends within an escape"},
      {"\\x4", "r: pattern '\\x4', character 1: the escape has too few hexadecimal digits"},
      {"\\ud800", "r: pattern '\\ud800', character 1: the escape is no character"},
      {"\xFF", "r: pattern '\uFFFD', character 1: this is no UTF-8 text"},
  };
  for (const auto& [pattern, wanted] : cases) {
    EXPECT_EQ(error_of([&, &pattern = pattern] { Grammar::from_regex(pattern, "r"); }), wanted) << pattern;
  }
  EXPECT_EQ(error_of([&] { Grammar::from_regex(std::string(65537, 'a'), "r"); }),
            "r: the pattern has 65537 bytes; Weft reads at most 65536");
  EXPECT_NE(
      error_of([&] { Grammar::from_regex(std::string(201, '('), "r"); }).find("groups are nested more than 200 deep"),
      std::string::npos);
}

class RandomPattern {
 public:
  explicit RandomPattern(uint64_t seed) : random_(seed) {}

  std::string alternatives(int depth) {
    std::string out = sequence(depth);
    while (pick(4) == 0) out += "|" + sequence(depth);
    return out;
  }
  std::string text() {
    std::string out;
    for (size_t i = pick(7); i > 0; --i) out += "ab1 "[pick(4)];
    return out;
  }
  size_t pick(size_t count) { return random_() % count; }

 private:
  std::string sequence(int depth) {
    std::string out;
    for (size_t i = 1 + pick(3); i > 0; --i) {
      out += atom(depth);
      static const char* const kQuantifiers[] = {"", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}"};
      out += kQuantifiers[pick(std::size(kQuantifiers))];
    }
    return out;
  }
  std::string atom(int depth) {
    static const char* const kAtoms[] = {"a",   "b",   "1",   " ",    ".",     "\\d",
                                         "\\w", "\\s", "\\S", "[ab]", "[^a1]", "[a-c\\d]"};
    if (depth > 0 && pick(4) == 0) return (pick(2) == 0 ? "(" : "(?:") + alternatives(depth - 1) + ")";
    return kAtoms[pick(std::size(kAtoms))];
  }

  std::mt19937_64 random_;
};

// Anchors within groups, word boundaries, lookahead and lazy quantifiers.
TEST(GrammarRegex, AssertionsAgreeWithStdRegex) {
  int matched = 0, tried = 0, none = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    RandomPattern random(seed);
    const auto piece = [&]() -> std::string {
      static const char* const kAssertions[] = {"^", "$", "\\b", "\\B"};
      switch (random.pick(4)) {
        case 0:
          return kAssertions[random.pick(4)];
        case 1:
          return (random.pick(2) == 0 ? "(?=" : "(?!") + random.alternatives(0) + (random.pick(3) == 0 ? "$)" : ")");
        case 2:
          return "(?:" + random.alternatives(0) + (random.pick(3) == 0 ? "|^|$" : "") + ")" +
                 (random.pick(2) == 0 ? "*?" : "??");
        default:
          return random.alternatives(0);
      }
    };
    const std::string pattern = "(?:" + piece() + piece() + piece() + ")";
    for (const bool search : {false, true}) {
      SCOPED_TRACE(pattern);
      const TextAutomaton automaton = regex_automaton(parse_regex(pattern, "r"), search, "r");
      none += automaton.empty() ? 1 : 0;
      const std::regex reference(pattern);
      for (int i = 0; i < 12; ++i, ++tried) {
        const std::string text = random.text();
        const bool wanted = search ? std::regex_search(text, reference) : std::regex_match(text, reference);
        ASSERT_EQ(automaton.accepts(text), wanted) << "'" << text << "' " << search;
        ASSERT_EQ(complement(automaton).accepts(text), !wanted) << "'" << text << "' " << search;
        matched += wanted ? 1 : 0;
      }
    }
  }
  EXPECT_GT(matched, tried / 20);
  EXPECT_LT(matched, tried - tried / 20);
  EXPECT_GT(none, 10);
}

// Patterns for whole texts, and for searches with and without anchors.
TEST(GrammarRegex, AgreesWithStdRegex) {
  int matched = 0, tried = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    RandomPattern random(seed);
    const std::string inner = random.alternatives(1);
    for (const bool search : {false, true}) {
      const std::string anchored =
          (search && random.pick(2) == 0 ? "^" : "") + inner + (search && random.pick(2) == 0 ? "$" : "");
      SCOPED_TRACE(anchored);
      GrammarBuilder builder("r");
      const RegexStyle style{[&](const CodePointSet& set) { return builder.character(set); }, search};
      const auto root = builder.declare("pattern");
      builder.define(root, "r", add_regex(builder, anchored, "r", style));
      Matcher matcher = byte_matcher(builder.finish(root));
      const std::regex reference(anchored);
      for (int i = 0; i < 12; ++i, ++tried) {
        const std::string text = random.text();
        const bool wanted = search ? std::regex_search(text, reference) : std::regex_match(text, reference);
        ASSERT_EQ(matches(matcher, text), wanted) << "'" << text << "' " << search;
        matched += wanted ? 1 : 0;
      }
    }
  }
  EXPECT_GT(matched, tried / 10);
  EXPECT_LT(matched, tried - tried / 10);
}

}  // namespace
}  // namespace weft
