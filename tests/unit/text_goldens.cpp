// Against what Hugging Face's libraries make of the same input (tests/tools/text_goldens.py).
#include <gtest/gtest.h>

#include "base/error.h"
#include "text/chat_template.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text_vocabularies.h"

namespace weft {
namespace {

using test::Json;
using Special = Tokenizer::Special;

Tokenizer golden_tokenizer(const std::string& name) {
  const Json golden = test::read_json(test::golden_folder() / ("tokenizer-" + name + ".json"));
  return Tokenizer::from_hf(golden["tokenizer"], {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, nullptr, name);
}

class TextGoldens : public testing::TestWithParam<const char*> {};

TEST_P(TextGoldens, TokenizerAgreesWithHuggingFace) {
  const Json golden = test::read_json(test::golden_folder() / ("tokenizer-" + std::string(GetParam()) + ".json"));
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
TEST_P(TextGoldens, PlainTextGivesNoControlToken) {
  const Json golden = test::read_json(test::golden_folder() / ("tokenizer-" + std::string(GetParam()) + ".json"));
  const Tokenizer tokenizer = golden_tokenizer(GetParam());
  for (const Json& line : golden["lines"]) {
    for (const uint32_t id : tokenizer.encode(line["text"].get<std::string>(), Special::plain)) {
      // Nothing but words that no tokens make up.
      EXPECT_TRUE(!tokenizer.is_control(id) || tokenizer.spelling(id) == "[UNK]") << line["text"];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TextGoldens,
                         testing::Values("bytelevel-gpt2", "bytelevel-prefix", "bytelevel-llama3", "bytelevel-qwen2",
                                         "bytelevel-digits", "sentencepiece", "metaspace", "wordpiece-uncased",
                                         "wordpiece-cased"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

std::string joined(const std::vector<Tokenizer::Piece>& pieces) {
  std::string text;
  for (const auto& piece : pieces) text += piece.text;
  return text;
}

std::vector<Message> messages_of(const Json& list) {
  std::vector<Message> out;
  for (const Json& item : list) out.push_back({item["role"], item["content"]});
  return out;
}

TEST(TextGoldens, ChatTemplatesAgreeWithTransformers) {
  const Json golden = test::read_json(test::golden_folder() / "chat_templates.json");
  const Tokenizer tokenizer = golden_tokenizer("sentencepiece");
  int refused = 0;
  for (const Json& item : golden["cases"]) {
    const std::string name = item["template"], conversation = item["conversation"];
    const ChatTemplate chat(golden["templates"][name], tokenizer, name);
    const auto messages = messages_of(golden["conversations"][conversation]);
    if (item.contains("error")) {
      EXPECT_THROW(chat.render(messages, item["prompt"]), Error) << name << " " << conversation;
      ++refused;
      continue;
    }
    EXPECT_EQ(joined(chat.render(messages, item["prompt"])), item["text"].get<std::string>())
        << name << " " << conversation;
  }
  EXPECT_GT(refused, 0);
}

TEST(TextGoldens, JinjaSnippetsAgreeWithJinja2) {
  const Json golden = test::read_json(test::golden_folder() / "jinja_snippets.json");
  const Tokenizer tokenizer = golden_tokenizer("sentencepiece");
  const std::vector<Message> messages = {
      {"user", "Hello there"}, {"assistant", "Hi! How can I help?"}, {"user", "Tell me a story."}};
  for (const Json& item : golden) {
    const std::string source = item["source"];
    try {
      EXPECT_EQ(joined(ChatTemplate(source, tokenizer, "snippet").render(messages, true)),
                item["text"].get<std::string>())
          << source;
    } catch (const Error& error) {
      ADD_FAILURE() << source << "\n" << error.what();
    }
  }
}

}  // namespace
}  // namespace weft
