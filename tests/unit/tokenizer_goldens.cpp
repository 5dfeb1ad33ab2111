// Tokenizers against the output of Hugging Face's libraries (tests/tools/text_goldens.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tokenizer/tokenizer.h"
#include "tokenizer_vocabularies.h"

namespace weft {
namespace {

using test::Json;

Tokenizer golden_tokenizer(const std::string& name) {
  const Json golden = test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + name + ".json"));
  return Tokenizer::from_hf(golden["tokenizer"], {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, nullptr, name);
}

class TokenizerFiles : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerFiles, TokenizerAgreesWithHuggingFace) {
  const Json golden =
      test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + std::string(GetParam()) + ".json"));
  const Tokenizer tokenizer = golden_tokenizer(GetParam());
  ASSERT_GT(golden["lines"].size(), 100u);
  for (const Json& line : golden["lines"]) {
    const std::string text = line["text"], decoded = line["decoded"];
    const std::vector<uint32_t> ids = line["ids"];
    EXPECT_EQ(tokenizer.encode(text, Special::parse), ids) << text;
    EXPECT_EQ(tokenizer.decode(ids), decoded) << text;
    StreamDecoder stream(tokenizer);
    std::string streamed;
    for (const uint32_t id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    EXPECT_TRUE(streamed == decoded || streamed == " " + decoded) << text;
  }
}

// With plain, no line gives a control token, and every byte comes back.
TEST_P(TokenizerFiles, PlainTextGivesNoControlToken) {
  const Json golden =
      test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + std::string(GetParam()) + ".json"));
  const Tokenizer tokenizer = golden_tokenizer(GetParam());
  for (const Json& line : golden["lines"]) {
    for (const uint32_t id : tokenizer.encode(line["text"].get<std::string>(), Special::plain)) {
      // The only control token allowed is [UNK], for words that no tokens make up.
      EXPECT_TRUE(!tokenizer.is_control(id) || tokenizer.spelling(id) == "[UNK]") << line["text"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerFiles,
                         testing::Values("bytelevel-gpt2", "bytelevel-prefix", "bytelevel-llama3", "bytelevel-qwen2",
                                         "bytelevel-digits", "sentencepiece", "metaspace", "wordpiece-uncased",
                                         "wordpiece-cased"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

// Control tokens that are found in normalized text come from parsed bytes only.
TEST(TokenizerGoldens, NormalizedControlTokensAreNotMadeOfPlainText) {
  for (const char* name : {"bytelevel-gpt2", "bytelevel-qwen2", "sentencepiece", "metaspace", "wordpiece-uncased"}) {
    Json base = test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + std::string(name) + ".json"));
    base = base["tokenizer"];
    const uint32_t id = 5000;
    base["added_tokens"].push_back(
        {{"id", id}, {"content", "[Ende é]"}, {"special", true}, {"normalized", true}, {"single_word", false}});
    const Tokenizer tokenizer = Tokenizer::from_hf(base, nullptr, nullptr, name);
    const auto count = [&](const std::vector<TextPiece>& pieces) {
      const auto ids = tokenizer.encode(pieces);
      return std::count(ids.begin(), ids.end(), id);
    };
    const TextPiece parsed{" [Ende é]", Special::parse}, typed{" [Ende é]", Special::plain};
    EXPECT_EQ(count({parsed}), 1) << name;
    EXPECT_EQ(count({typed}), 0) << name;
    EXPECT_EQ(count({parsed, typed, parsed}), 2) << name;
    EXPECT_EQ(count({typed, {" [Ende ", Special::parse}, {"é", Special::plain}, {"]", Special::parse}}), 0) << name;
    EXPECT_EQ(count({{"e", Special::plain}, {"\u0301x", Special::plain}, parsed}), 1) << name;
    // A character of both kinds of bytes.
    EXPECT_LE(count({{"e", Special::parse}, {"\u0301", Special::plain}, parsed}), 1) << name;
    const bool drops_accents = std::string(name) == "wordpiece-uncased";  // the parsed bytes alone are the token then
    EXPECT_EQ(count({{" [Ende e", Special::parse}, {"\u0301", Special::plain}, {"]", Special::parse}}), drops_accents)
        << name;
  }
}

// The tokenizer.json that cases of added_tokens.json start from.
Json base_of(const Json& group) {
  const std::string name = group["base"];
  if (!group["tokenizer"].is_null()) return group["tokenizer"];
  if (name.ends_with(".json")) return test::read_json(name);
  return test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + name + ".json"))["tokenizer"];
}

// tests/tools/added_token_goldens.py: special or not, normalized, with white space taken, of single words. Other cases
// than the repository's: their file is WEFT_ADDED_TOKEN_CASES.
TEST(TokenizerGoldens, AddedTokensAgreeWithHuggingFace) {
  const char* const other = std::getenv("WEFT_ADDED_TOKEN_CASES");
  const Json golden = test::read_json(other != nullptr ? std::filesystem::path(other)
                                                       : test::golden_folder("tokenizer") / "added_tokens.json");
  size_t lines = 0;
  for (const Json& group : golden) {
    Json base = base_of(group);
    for (const Json& item : group["cases"]) {
      base["added_tokens"] = item["added"];
      const Tokenizer tokenizer = Tokenizer::from_hf(base, nullptr, nullptr, group["base"]);
      for (const Json& line : item["lines"]) {
        const std::string text = line["text"];
        EXPECT_EQ(tokenizer.encode(text, Special::parse), line["ids"].get<std::vector<uint32_t>>())
            << group["base"] << ": " << line["text"] << " with " << item["added"];
        EXPECT_EQ(tokenizer.encode(text, Special::plain), line["plain"].get<std::vector<uint32_t>>())
            << group["base"] << ": plain " << line["text"] << " with " << item["added"];
        ++lines;
      }
    }
  }
  EXPECT_GE(lines, 400u);
}

}  // namespace
}  // namespace weft
