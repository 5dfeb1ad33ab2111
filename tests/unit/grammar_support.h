// Shared code of the grammars' tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "grammar/matcher.h"

namespace weft::test {

inline std::shared_ptr<const Grammar> share(Grammar grammar) { return std::make_shared<Grammar>(std::move(grammar)); }

// A vocabulary of every byte (its id), some texts after them, and the stop token, which is the last.
inline std::vector<std::string> byte_vocabulary(const std::vector<std::string>& texts = {}) {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
  tokens.insert(tokens.end(), texts.begin(), texts.end());
  tokens.emplace_back();
  return tokens;
}

inline Matcher byte_matcher(Grammar grammar) {
  static const auto trie = std::make_shared<const TokenTrie>(byte_vocabulary());
  return Matcher(share(std::move(grammar)), trie, {256});
}

// Number of bytes of a text that a matcher takes, and whether it may end there.
struct Taken {
  size_t bytes = 0;
  bool may_end = false;
};
inline Taken take(Matcher& matcher, std::string_view text) {
  matcher.reset();
  for (size_t i = 0; i < text.size(); ++i) {
    const auto id = static_cast<uint8_t>(text[i]);
    if (!matcher.allowed().contains(id)) return {i, false};
    matcher.accept(id);
  }
  return {text.size(), matcher.may_end()};
}

inline bool matches(Matcher& matcher, std::string_view text) {
  const Taken taken = take(matcher, text);
  return taken.bytes == text.size() && taken.may_end;
}

// "place: sentence (hint)" of the error that a function throws; "no error" if it throws none.
template <typename Run>
std::string error_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace weft::test
