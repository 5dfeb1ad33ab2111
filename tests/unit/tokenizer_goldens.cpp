// Against what Hugging Face's libraries make of the same input (tests/tools/text_goldens.py).
#include <gtest/gtest.h>

#include "tokenizer/tokenizer.h"
#include "tokenizer_vocabularies.h"

namespace weft {
namespace {

using test::Json;

Tokenizer golden_tokenizer(const std::string& name) {
  const Json golden = test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + name + ".json"));
  return Tokenizer::from_hf(golden["tokenizer"], {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, nullptr, name);
}

class TokenizerGoldens : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGoldens, TokenizerAgreesWithHuggingFace) {
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
TEST_P(TokenizerGoldens, PlainTextGivesNoControlToken) {
  const Json golden =
      test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + std::string(GetParam()) + ".json"));
  const Tokenizer tokenizer = golden_tokenizer(GetParam());
  for (const Json& line : golden["lines"]) {
    for (const uint32_t id : tokenizer.encode(line["text"].get<std::string>(), Special::plain)) {
      // Nothing but words that no tokens make up.
      EXPECT_TRUE(!tokenizer.is_control(id) || tokenizer.spelling(id) == "[UNK]") << line["text"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGoldens,
                         testing::Values("bytelevel-gpt2", "bytelevel-prefix", "bytelevel-llama3", "bytelevel-qwen2",
                                         "bytelevel-digits", "sentencepiece", "metaspace", "wordpiece-uncased",
                                         "wordpiece-cased"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weft
