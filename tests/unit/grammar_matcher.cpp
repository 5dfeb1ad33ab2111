// GBNF, and the matcher against a recogniser that tries everything (reference/context_free.h).
#include "grammar/grammar.h"

#include <algorithm>
#include <random>
#include <thread>

#include "grammar_support.h"
#include "reference/context_free.h"

namespace weft {
namespace {

using test::byte_matcher;
using test::byte_vocabulary;
using test::error_of;
using test::matches;
using test::share;

struct Case {
  const char* grammar;
  std::vector<std::string> yes, no;
};

TEST(Grammar, GbnfMatchesWhatItSays) {
  const std::vector<Case> cases = {
      {"root ::= \"ab\"", {"ab"}, {"", "a", "abc", "b"}},
      {"root ::= \"a\" | \"b\" \"c\"", {"a", "bc"}, {"b", "ac", "c"}},
      {"root ::= [a-cx]", {"a", "b", "c", "x"}, {"d", "-", "ab", ""}},
      {"root ::= [a-]", {"a", "-"}, {"b"}},
      {"root ::= [^a-c\\n]",
       {"d", "\xC3\xA9", "\xF0\x9F\x98\x80", "\r"},
       {"a", "b", "\n", "\x80", "\xC3", "\xED\xA0\x80"}},
      {"root ::= [\\x41-\\x43\\u00e9\\U0001F600]", {"A", "C", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"D", "\xE9"}},
      {"root ::= \"\\xE9\\t\\r\\n\\\\\\\"\\[\\]\"", {"\xC3\xA9\t\r\n\\\"[]"}, {"\xE9\t\r\n\\\"[]"}},
      {"root ::= .",
       {"a", "\n", "\xC3\xA9", "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF"},
       {"", "ab", "\xFF", "\xF4\x90\x80\x80"}},
      {"root ::= \"a\"* \"b\"+ \"c\"?", {"b", "aabbc", "bb"}, {"", "a", "ac", "bcc"}},
      {"root ::= \"ab\"{2}", {"abab"}, {"ab", "abb", "ababab"}},
      {"root ::= \"a\"{2,}", {"aa", "aaaaa"}, {"a"}},
      {"root ::= \"a\"{ 1 , 3 }", {"a", "aa", "aaa"}, {"", "aaaa"}},
      {"root ::= \"a\"{0,2}", {"", "a", "aa"}, {"aaa"}},
      {"root ::= \"a\"{0}", {""}, {"a"}},
      {"root ::= (\"a\" | [0-9]{2})+", {"a", "12", "a12a"}, {"1", "", "1a"}},
      {"root ::= (\"ab\"?)* \"c\"", {"c", "abc", "ababc"}, {"ac"}},
      {"root ::= (\"a\"*)*", {"", "a", "aaa"}, {"b"}},
      {"root ::= \"\" | \"a\"", {"", "a"}, {"aa"}},
      {"root ::= | \"a\"", {"", "a"}, {"aa"}},
      {"root ::= ( )", {""}, {"a"}},
      {"root ::= \"a\"?*", {"", "a", "aa"}, {"b"}},
      // Whitespace: a line ends a rule outside of brackets, but for after ::= and |.
      {"# c\n\n  root   ::=\n\n\"a\" | # c\n \"b\" x # c\r\nx ::= (\n\"c\"\n# c\n|\n\"d\"\n)\n",
       {"a", "bc", "bd"},
       {"b", "c"}},
      {"root ::= a-b2 A_b\na-b2 ::= \"x\"\nA_b ::= \"y\"", {"xy"}, {"x", "y"}},
      // Recursion on the right and in the middle; rules that may be empty before and after it.
      {"root ::= \"(\" root \")\" root | \"\"", {"", "()", "(())()", "()()"}, {"(", ")", "(()"}},
      {"root ::= \"a\" root w | \"b\"\nw ::= \" \"*", {"b", "aab", "aab   "}, {"a", " b"}},
      {"root ::= x x x \"!\"\nx ::= \"a\"?", {"!", "a!", "aaa!"}, {"aaaa!", ""}},
      // The same text in many ways.
      {"root ::= s\ns ::= \"a\" s \"x\" | \"a\" s \"y\" | \"a\"", {"a", "aax", "aaaxy"}, {"aaxy", "ax"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.grammar);
    Matcher matcher = byte_matcher(Grammar::from_gbnf(c.grammar, "g"));
    for (const std::string& text : c.yes) EXPECT_TRUE(matches(matcher, text)) << testing::PrintToString(text);
    for (const std::string& text : c.no) EXPECT_FALSE(matches(matcher, text)) << testing::PrintToString(text);
  }
}

TEST(Grammar, GbnfErrorsNamePlaceAndReason) {
  const std::string deep(201, '('), chained = "root ::= \"a\"*****";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "g.gbnf: the grammar is empty: it has no rules"},
      {"# nothing\n", "g.gbnf: the grammar is empty: it has no rules"},
      {"a ::= \"x\"", "g.gbnf: there is no rule 'root', which is what the whole text has to match"},
      {"root ::= a\nb ::= \"x\" cc", "g.gbnf:1:10: rule 'a' is used but not defined"},
      {"root ::= \"a\"\n\nroot ::= \"b\"", "g.gbnf:3:1: rule 'root' is defined a second time; the first is in line 1"},
      {"root ::= root \"a\" | \"b\"",
       "g.gbnf:1:1: left recursion: rule 'root' may begin with itself (let a rule begin "
       "with something else before it uses itself, or repeat with *)"},
      {"root ::= \"x\" a\na ::= b \"x\"\nb ::= w (a | \"c\")\nw ::= \" \"*",
       "g.gbnf:2:1: left recursion: rule 'a' may begin with 'b', which may begin with 'a' (let a rule begin with "
       "something else before it uses itself, or repeat with *)"},
      {"root ::= (\"a\"? root){7}",
       "g.gbnf:1:1: left recursion: rule 'root' may begin with itself (let a rule begin "
       "with something else before it uses itself, or repeat with *)"},
      {"root ::= \"(\" a \")\"\na ::= \"x\" a | \"y\" a",
       "g.gbnf:2:1: rule 'a' can never end: each of its alternatives needs the rule itself"},
      {"root ::= \"x\"\nb ::= \"x\" c\nc ::= \"y\" b",
       "g.gbnf:2:1: rule 'b' can never end: each of its alternatives needs the rule itself"},
      {"root ::= \"a", "g.gbnf:1:10: the literal does not end in its line (a line break in it is \\n)"},
      {"root ::= \"\xC3\xA9\" [a", "g.gbnf:1:14: the character class does not end in its line"},
      {"root ::= [z-a]", "g.gbnf:1:11: the range 'z-a' ends before it begins"},
      {"root ::= []", "g.gbnf:1:10: the character class has no characters"},
      {"root ::= [^\\U00000000-\\U0010FFFF]", "g.gbnf:1:10: the character class has no characters"},
      {"root ::= \"\\q\"",
       "g.gbnf:1:11: an escape '\\' is followed by 'q' (known are \\n \\t \\r \\\\ \\\" \\[ \\] \\xNN "
       "\\uNNNN \\UNNNNNNNN)"},
      {"root ::= \"\\x4\"", "g.gbnf:1:11: \\x should be followed by 2 hexadecimal digits, but there is '\"'"},
      {"root ::= \"\\uD800\"", "g.gbnf:1:11: the escape '\\uD800' is no character"},
      {"root ::= \"\\U00110000\"", "g.gbnf:1:11: the escape '\\U00110000' is no character"},
      {"root ::= (\"a\"\n", "g.gbnf:2:1: ')' should end the group of line 1 here, but there is the end of the text"},
      {"root ::= \"a\")", "g.gbnf:1:13: the rule should go on or end here, but there is ')'"},
      {"root \"a\"", "g.gbnf:1:6: '::=' should follow the rule's name, but there is '\"'"},
      {"root ::= \"a\"\n| \"b\"", "g.gbnf:2:1: a rule should begin here, but there is '|'"},
      {"root ::= *", "g.gbnf:1:10: the rule should go on or end here, but there is '*'"},
      {"root ::= \"a\"{2", "g.gbnf:1:15: '}' should end the repetition here, but there is the end of the text"},
      {"root ::= \"a\"{,2}", "g.gbnf:1:14: a count should stand here, but there is ','"},
      {"root ::= \"a\"{3,2}", "g.gbnf:1:13: a repetition of at least 3 and at most 2 is impossible"},
      {"root ::= \"a\"{100001}", "g.gbnf:1:14: a repetition's count is more than 100000"},
      {"root ::= \"a\"{100000} \"b\"{100000} \"c\"{100000}",
       "g.gbnf:1:1: rule 'root' makes the grammar too large: it needs more than 262144 states (repetitions inside "
       "repetitions multiply)"},
      {"root ::= (\"a\"?){20000}", "g.gbnf:1:1: rule 'root' is too intricate: too many of its parts may be empty"},
      {"root ::= " + deep, "g.gbnf:1:210: groups are nested more than 200 deep"},
      {chained, "g.gbnf:1:17: more than 4 repetitions follow one another"},
      {"root ::= <think>",
       "g.gbnf:1:10: tokens in a grammar, '<...>', are not supported (write the text that the token "
       "stands for)"},
      {"root ::= \"\xFF\"", "g.gbnf:1:11: this is no UTF-8 text"},
      {std::string("root ::= \0", 10),
       "g.gbnf:1:10: the rule should go on or end here, but there is a control character"},
      {std::string((1 << 20) + 1, ' '), "g.gbnf: the grammar has 1048577 bytes; Weft reads at most 1048576"},
  };
  for (const auto& [text, wanted] : cases) {
    EXPECT_EQ(error_of([&, &text = text] { Grammar::from_gbnf(text, "g.gbnf"); }), wanted) << text.substr(0, 100);
  }
}

// ---- Random grammars ----

using reference::ContextFree;
using reference::Expr;

class RandomGrammar {
 public:
  explicit RandomGrammar(uint64_t seed) : random_(seed) {}

  ContextFree make() {
    ContextFree grammar;
    rules_ = 1 + pick(4);
    for (size_t i = 0; i < rules_; ++i) grammar.rules.push_back(expr(3));
    return grammar;
  }

  size_t pick(size_t count) { return random_() % count; }

 private:
  Expr expr(int depth) {
    const size_t kind = pick(depth == 0 ? 4 : 10);
    if (kind < 2) return {.kind = Expr::Kind::literal, .text = text()};
    if (kind == 2) return {.kind = Expr::Kind::set, .members = members(), .inverse = pick(4) == 0};
    if (kind == 3) return {.kind = Expr::Kind::call, .rule = pick(rules_)};
    if (kind < 9) {
      Expr made{.kind = kind < 6 ? Expr::Kind::sequence : Expr::Kind::choice};
      const size_t count = 1 + pick(3);
      for (size_t i = 0; i < count; ++i) made.parts.push_back(expr(depth - 1));
      return made;
    }
    const auto least = static_cast<unsigned>(pick(3)), more = static_cast<unsigned>(pick(6));
    return {.kind = Expr::Kind::repeat,
            .parts = {expr(depth - 1)},
            .least = least,
            .most = more > 3 ? Expr::kUnbounded : least + more};
  }

  std::string text() {
    static const char* const kTexts[] = {"", "a", "b", "ab", "ba", "c", "\xC3\xA9", "\xC3\xAA\x61", "\xE2\x82\xAC"};
    return kTexts[pick(std::size(kTexts))];
  }

  std::vector<char32_t> members() {
    static const char32_t kMembers[] = {'a', 'b', 'c', 0xE9, 0xEA, 0x20AC, 0x1F600};
    std::vector<char32_t> made;
    for (const char32_t c : kMembers) {
      if (pick(3) == 0) made.push_back(c);
    }
    if (made.empty()) made.push_back('a');
    return made;
  }

  std::mt19937_64 random_;
  size_t rules_ = 1;
};

const std::vector<std::string>& small_vocabulary() {
  static const std::vector<std::string> tokens = {"a",
                                                  "b",
                                                  "c",
                                                  "ab",
                                                  "ba",
                                                  "aa",
                                                  "abc",
                                                  "bab",
                                                  "\xC3",
                                                  "\xA9",
                                                  "",
                                                  "\xAA",
                                                  "\xC3\xA9",
                                                  "\xA9\x61",
                                                  "a\xC3",
                                                  "\xE2",
                                                  "\x82",
                                                  "\xAC",
                                                  "\x82\xAC",
                                                  "\xE2\x82\xAC",
                                                  "\xF0\x9F",
                                                  "\x98\x80",
                                                  "\xF0",
                                                  "\x80",
                                                  "z",
                                                  "\xFF",
                                                  "abab",
                                                  "a",
                                                  "\xC3\xAA\x61\x62"};
  return tokens;
}

// Every token, tried by the reference, along random walks through random grammars.
TEST(Grammar, MatcherAllowsWhatBruteForceAllows) {
  const auto trie = std::make_shared<const TokenTrie>(small_vocabulary());
  const std::vector<uint32_t> stops = {10, 26};  // the second has bytes, and yet only ends
  size_t refused = 0, steps = 0, ends = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    RandomGrammar random(seed);
    const ContextFree grammar = random.make();
    const std::string gbnf = grammar.gbnf();
    SCOPED_TRACE(gbnf);
    if (grammar.is_left_recursive() || grammar.has_endless_rule()) {
      const std::string error = error_of([&] { Grammar::from_gbnf(gbnf, "g"); });
      const bool named =
          error.find(grammar.is_left_recursive() ? "left recursion" : "can never end") != std::string::npos;
      ASSERT_TRUE(named) << error;
      ++refused;
      continue;
    }
    Matcher matcher(share(Grammar::from_gbnf(gbnf, "g")), trie, stops, seed % 2 == 0 ? 1 : Matcher::kDefaultMemory);
    for (int walk = 0; walk < 3; ++walk) {
      matcher.reset();
      std::string text;
      for (int step = 0; step < 8; ++step, ++steps) {
        SCOPED_TRACE(testing::PrintToString(text));
        const bool may_end = judge(grammar, text).matches;
        std::vector<uint32_t> wanted;
        for (uint32_t id = 0; id < small_vocabulary().size(); ++id) {
          const bool stop = id == stops[0] || id == stops[1];
          if (stop ? may_end : judge(grammar, text + small_vocabulary()[id]).begins_one) wanted.push_back(id);
        }
        ASSERT_EQ(matcher.may_end(), may_end);
        if (wanted.empty()) {  // the vocabulary lacks most bytes
          EXPECT_NE(error_of([&] { matcher.allowed(); }).find("no token of the vocabulary can give it"),
                    std::string::npos);
          break;
        }
        const TokenSet& allowed = matcher.allowed();
        ASSERT_EQ(allowed.ids, wanted);
        ASSERT_EQ(allowed.count, wanted.size());
        for (uint32_t id = 0; id < small_vocabulary().size(); ++id) {
          ASSERT_EQ(allowed.contains(id), std::binary_search(wanted.begin(), wanted.end(), id)) << id;
        }
        ASSERT_EQ(matcher.finished(), wanted == stops);
        const uint32_t next = wanted[random.pick(wanted.size())];
        matcher.accept(next);
        if (next == stops[0] || next == stops[1]) {
          EXPECT_TRUE(matcher.finished());
          EXPECT_EQ(matcher.allowed().count, 0u);
          ++ends;
          break;
        }
        text += small_vocabulary()[next];
      }
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_GT(steps, 5000u);
  EXPECT_GT(ends, 500u);
}

// ---- The matcher ----

TEST(Grammar, AcceptRefusesWhatIsNotAllowedAndChangesNothing) {
  Matcher matcher = byte_matcher(Grammar::from_gbnf("root ::= \"ab\"", "g"));
  EXPECT_EQ(error_of([&] { matcher.accept('b'); }),
            "g: token 98 'b' does not go on with the grammar at the beginning of the text");
  EXPECT_EQ(error_of([&] { matcher.accept(256); }),
            "g: token 256 ends the text at the beginning of the text, where the grammar needs more");
  EXPECT_EQ(error_of([&] { matcher.accept(5000); }), "g: token 5000 has no text");
  matcher.accept('a');
  EXPECT_EQ(error_of([&] { matcher.accept('a'); }), "g: token 97 'a' does not go on with the grammar after 'a'");
  matcher.accept('b');
  EXPECT_TRUE(matcher.finished());
  EXPECT_EQ(matcher.allowed().ids, std::vector<uint32_t>{256});
  matcher.accept(256);
  EXPECT_EQ(error_of([&] { matcher.accept('a'); }), "g: token 97 follows the end of the text");
  EXPECT_EQ(error_of([&] { matcher.accept(256); }), "g: token 256 follows the end of the text");
  matcher.reset();
  EXPECT_EQ(matcher.allowed().ids, std::vector<uint32_t>{'a'});
}

TEST(Grammar, WithoutStopTokensTheEndHasNoTokens) {
  const auto trie = std::make_shared<const TokenTrie>(byte_vocabulary());
  Matcher matcher(share(Grammar::from_gbnf("root ::= \"a\"", "g")), trie, {});
  EXPECT_FALSE(matcher.finished());
  matcher.accept('a');
  EXPECT_TRUE(matcher.finished());
  EXPECT_EQ(matcher.allowed().count, 0u);
  EXPECT_EQ(error_of([&] { Matcher(share(Grammar::from_gbnf("root ::= \"a\"", "g")), trie, {257}); }),
            "Matcher: stop token 257 is outside the vocabulary of 257 tokens");
}

TEST(Grammar, AVocabularyThatCannotGoOnIsNamed) {
  const auto trie = std::make_shared<const TokenTrie>(std::vector<std::string>{"a", "b", ""});
  Matcher matcher(share(Grammar::from_gbnf("root ::= \"ab\" [cd] | \"ba\" \"x\"?", "g.gbnf")), trie, {2});
  matcher.accept(0);
  matcher.accept(1);
  EXPECT_EQ(
      error_of([&] { matcher.allowed(); }),
      "g.gbnf: the grammar needs more text after 'ab', but no token of the vocabulary can give it (the vocabulary "
      "lacks a byte; most have a token for each)");
  // Where the text can only end, only the end is allowed.
  matcher.reset();
  matcher.accept(1);
  matcher.accept(0);
  EXPECT_TRUE(matcher.finished());
  EXPECT_EQ(matcher.allowed().ids, std::vector<uint32_t>{2});
}

// Others wait while a mask is computed. Here every text of the letters leads to another set of some 1,600 stacks.
TEST(Grammar, AMaskThatTakesTooLongIsAnError) {
  std::string grammar = "root ::= [^\\n]* (k0";
  for (int i = 1; i < 6; ++i) grammar += " | k" + std::to_string(i);
  grammar += ")\n";
  const char* const begins[] = {"[a]", "[ae]", "[aei]", "[eio]", "[io]", "[o]"};
  for (int i = 0; i < 6; ++i) grammar += "k" + std::to_string(i) + " ::= " + begins[i] + " [^\\n]{600}\n";
  std::vector<std::string> texts = {""};
  for (size_t at = 0; texts.size() < 30000; ++at)
    for (const char letter : {'a', 'e', 'i', 'o'}) texts.push_back(texts[at] + letter);
  texts.erase(texts.begin());
  const std::vector<std::string> tokens = byte_vocabulary(texts);
  Matcher matcher(share(Grammar::from_gbnf(grammar, "g")), std::make_shared<const TokenTrie>(tokens),
                  {static_cast<uint32_t>(tokens.size() - 1)});
  matcher.allowed();
  for (int i = 0; i < 550; ++i) matcher.accept('a');
  const std::string error = error_of([&] { matcher.allowed(); });
  EXPECT_NE(error.find("the tokens that may follow take too long to find"), std::string::npos) << error;
}

TEST(Grammar, AmbiguityBeyondAnyUseIsAnErrorAndNoEndlessLoop) {
  // 2^n stacks after n letters.
  Matcher matcher = byte_matcher(
      Grammar::from_gbnf("root ::= x | y\nx ::= \"a\" root \"x\"? | \"a\"\ny ::= \"a\" root \"y\"? | \"a\"", "g"));
  const std::string error = error_of([&] {
    for (int i = 0; i < 100; ++i) matcher.accept('a');
  });
  EXPECT_EQ(error,
            "g: the grammar is too ambiguous: within rule 'x' a text can be derived in more than 4096 ways at once");
  // The matcher has not moved.
  EXPECT_NE(error_of([&] { matcher.accept('a'); }), "no error");
  EXPECT_EQ(error_of([&] { matcher.accept('x'); }), "no error");
}

// So little memory that states are dropped on the way; the allowed tokens stay the same.
TEST(Grammar, StatesThatWereForgottenAreFoundAgain) {
  const auto trie = std::make_shared<const TokenTrie>(byte_vocabulary({"cde", "(((", ")))"}));
  const auto grammar =
      share(Grammar::from_gbnf("root ::= (\"a\" .{1000} | [^b]{3,1001}) x \"!\"\nx ::= \"(\" x \")\" | \"\"", "g"));
  std::string text = "a";
  for (int i = 0; i < 1000; ++i) text += static_cast<char>('c' + i % 20);
  text += std::string(300, '(') + std::string(300, ')') + "!";
  for (const size_t memory : {size_t{1}, size_t{20000}, Matcher::kDefaultMemory}) {
    SCOPED_TRACE(memory);
    Matcher matcher(grammar, trie, {259}, memory);
    EXPECT_TRUE(matches(matcher, text));
    std::string other = text;
    other[700] = 'b';
    EXPECT_TRUE(matches(matcher, other));
    other[0] = 'c';
    EXPECT_FALSE(matches(matcher, other));
    EXPECT_EQ(test::take(matcher, other).bytes, 700u);
  }
}

TEST(Grammar, GrammarAndTrieAreSharedByThreads) {
  const auto trie = std::make_shared<const TokenTrie>(byte_vocabulary({"ab", "aab"}));
  const auto grammar = share(Grammar::from_gbnf("root ::= \"a\" root \"b\" | \"\"", "g"));
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        Matcher matcher(grammar, trie, {258});
        for (int i = 0; i <= t; ++i) matcher.accept('a');
        for (int i = 0; i <= t; ++i) matcher.accept('b');
        good[static_cast<size_t>(t)] += matcher.finished() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 50));
}

TEST(Grammar, TrieHoldsEveryTokenOnce) {
  const TokenTrie trie(small_vocabulary());
  std::string text;
  std::vector<uint32_t> found;
  for (size_t at = 0; at < trie.nodes().size(); ++at) {
    const TokenTrie::Node& node = trie.nodes()[at];
    text.resize(node.depth - 1);
    text += static_cast<char>(node.byte);
    for (const uint32_t id : trie.tokens(at)) {
      EXPECT_EQ(small_vocabulary()[id], text);
      EXPECT_EQ(trie.bytes(id), text);
      found.push_back(id);
    }
    EXPECT_GT(node.end, at);
    EXPECT_TRUE(node.end == trie.nodes().size() || trie.nodes()[node.end].depth <= node.depth);
  }
  std::sort(found.begin(), found.end());
  std::vector<uint32_t> wanted;
  for (uint32_t id = 0; id < small_vocabulary().size(); ++id) {
    if (!small_vocabulary()[id].empty()) wanted.push_back(id);
  }
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(trie.vocabulary_size(), small_vocabulary().size());
  EXPECT_EQ(TokenTrie(std::vector<std::string>{}).nodes().size(), 0u);
}

}  // namespace
}  // namespace weft
