// Grammars of all three kinds. Input: 'g' (GBNF), 's' (JSON Schema) or 'r' (a regular expression), its text, a zero
// byte, and bytes that choose tokens.
#include "fuzz_support.h"
#include "grammar/matcher.h"

namespace {

// Every byte, some texts of several, and the stop token.
const std::shared_ptr<const weft::TokenTrie>& trie() {
  static const auto made = [] {
    std::vector<std::string> tokens;
    for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
    for (const char* text : {"ab", "\"}", "{\"", "\":", "12", "null", "\xC3\xA9", "\xA9\"", ""})
      tokens.emplace_back(text);
    return std::make_shared<const weft::TokenTrie>(tokens);
  }();
  return made;
}

weft::Grammar make(char kind, std::string_view text) {
  if (kind == 'g') return weft::Grammar::from_gbnf(text, "fuzz");
  if (kind == 's') return weft::Grammar::from_json_schema(text, "fuzz");
  return weft::Grammar::from_regex(text, "fuzz");
}

// The vocabulary has every byte, so some token is allowed until the end. Finding it may fail only with the error about
// ambiguity.
void walk(weft::Matcher& matcher, std::string_view choices) {
  for (const char choice : choices.substr(0, 64)) {
    if (matcher.finished()) return;
    const weft::TokenSet& allowed = matcher.allowed();
    if (allowed.ids.empty()) std::abort();
    const uint32_t id = allowed.ids[static_cast<uint8_t>(choice) % allowed.ids.size()];
    matcher.accept(id);
  }
}

}  // namespace

void weft::fuzz_input(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.empty()) return;
  const size_t zero = std::min(input.find('\0'), size);
  weft::expect_answer_or_error([&] {
    const auto grammar = std::make_shared<const weft::Grammar>(make(input[0], input.substr(1, zero - 1)));
    try {
      weft::Matcher matcher(grammar, trie(), {trie()->vocabulary_size() - 1}, 1 << 16);
      walk(matcher, input.substr(std::min(zero + 1, size)));
    } catch (const weft::Error& error) {
      if (error.sentence().find("too ambiguous") == std::string::npos) std::abort();
    }
  });
}
