// A tokenizer.json as GGUF's keys: the same ids and texts, as Weft reads the original, which tokenizer_goldens.cpp
// compares with Hugging Face.
#include "convert/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer_vocabularies.h"

namespace weft {
namespace {

using test::Json;

const Json kConfig = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"chat_template", "{{ messages }}"}};

// A golden without the flags of added tokens that GGUF lacks.
Json golden(const std::string& name) {
  Json file = test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + name + ".json"));
  for (Json& token : file["tokenizer"]["added_tokens"])
    for (const char* flag : {"lstrip", "rstrip", "single_word"}) token[flag] = false;
  return file;
}

struct Expected {
  const char* name;
  const char* model;
  const char* pre;
};

class GgufTokenizers : public testing::TestWithParam<Expected> {};

TEST_P(GgufTokenizers, EncodesAsTheOriginal) {
  const Json file = golden(GetParam().name);
  const uint32_t rows = 800;
  const Json keys = gguf_tokenizer(file["tokenizer"], kConfig, nullptr, "llama", false, rows, "folder");
  EXPECT_EQ(keys["tokenizer.ggml.model"], GetParam().model);
  EXPECT_EQ(keys["tokenizer.ggml.pre"], GetParam().pre);
  EXPECT_EQ(keys["tokenizer.chat_template"], "{{ messages }}");
  EXPECT_EQ(keys["tokenizer.ggml.tokens"].size(), rows);
  EXPECT_EQ(keys["tokenizer.ggml.tokens"][799], "[PAD799]");
  const Tokenizer original = Tokenizer::from_hf(file["tokenizer"], kConfig, nullptr, "folder");
  const Tokenizer tokenizer = Tokenizer::from_gguf(keys, "file");
  EXPECT_EQ(tokenizer.bos(), original.bos());
  EXPECT_EQ(tokenizer.stop_ids(), original.stop_ids());
  EXPECT_EQ(tokenizer.chat_template(), original.chat_template());
  EXPECT_EQ(tokenizer.eos(), original.eos());
  ASSERT_GT(file["lines"].size(), 100u);
  for (const Json& line : file["lines"]) {
    const std::string text = line["text"];
    const std::vector<uint32_t> ids = original.encode(text, Special::parse);
    EXPECT_EQ(tokenizer.encode(text, Special::parse), ids) << text;
    EXPECT_EQ(tokenizer.encode(text, Special::plain), original.encode(text, Special::plain)) << text;
    EXPECT_EQ(tokenizer.decode(ids), original.decode(ids)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufTokenizers,
                         testing::Values(Expected{"bytelevel-gpt2", "gpt2", "gpt-2"},
                                         Expected{"bytelevel-llama3", "gpt2", "llama-bpe"},
                                         Expected{"bytelevel-qwen2", "gpt2", "qwen2"},
                                         Expected{"bytelevel-digits", "gpt2", "smollm"},
                                         Expected{"sentencepiece", "llama", "default"}),
                         [](const auto& param) {
                           std::string name = param.param.name;
                           std::erase(name, '-');
                           return name;
                         });

// Gemma 4's tokenizer.json puts no mark before a text. Its merges are ranked by a list, in any order.
TEST(GgufTokenizer, Gemma4KeepsItsMerges) {
  Json file = golden("sentencepiece"), &tokenizer = file["tokenizer"];
  tokenizer["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xe2\x96\x81"}};
  tokenizer["decoder"]["decoders"].erase(3);  // that strips the mark
  Json& merges = tokenizer["model"]["merges"];
  std::swap(merges[0], merges[merges.size() - 1]);
  const Json keys = gguf_tokenizer(tokenizer, kConfig, nullptr, "gemma4", false, 800, "folder");
  EXPECT_EQ(keys["tokenizer.ggml.model"], "gemma4");
  EXPECT_EQ(keys["tokenizer.ggml.merges"].size(), merges.size());
  const Tokenizer original = Tokenizer::from_hf(tokenizer, kConfig, nullptr, "folder");
  const Tokenizer read = Tokenizer::from_gguf(keys, "file");
  EXPECT_TRUE(read.add_bos());
  EXPECT_EQ(read.bos(), original.bos());
  for (const Json& line : file["lines"]) {
    const std::string text = line["text"], twice = text + "\n\n\n" + text;
    for (const std::string& one : {text, twice}) {
      const std::vector<uint32_t> ids = original.encode(one, Special::parse);
      EXPECT_EQ(read.encode(one, Special::parse), ids) << one;
      EXPECT_EQ(read.decode(ids), original.decode(ids)) << one;
    }
  }
}

// GGUF has keys for two templates; and Phi-3's tokens take the white space after them in a file of this architecture.
TEST(GgufTokenizer, KeepsTheTemplateOfToolsAndPhi3sWhiteSpace) {
  Json file = golden("sentencepiece"), config = kConfig;
  config["chat_template"] = {{{"name", "default"}, {"template", "plain"}},
                             {{"name", "tool_use"}, {"template", "tools"}}};
  for (Json& token : file["tokenizer"]["added_tokens"]) token["rstrip"] = token["id"].get<int>() > 1;
  const Json keys = gguf_tokenizer(file["tokenizer"], config, nullptr, "phi3", false, 800, "folder");
  EXPECT_EQ(keys["tokenizer.chat_template"], "plain");
  EXPECT_EQ(keys["tokenizer.chat_template.tool_use"], "tools");
  ASSERT_EQ(keys["tokenizer.chat_templates"].size(), 1u);
  EXPECT_EQ(keys["tokenizer.chat_templates"][0], "tool_use");
  EXPECT_EQ(read_hf_tokenizer(file["tokenizer"], config, nullptr, "folder").tool_template, "tools");
}

void expect_refused(const Json& tokenizer, const std::string& fragment, uint32_t rows = 800,
                    Code code = Code::unsupported) {
  try {
    gguf_tokenizer(tokenizer, kConfig, nullptr, "llama", false, rows, "folder");
    ADD_FAILURE() << "no error; expected one with: " << fragment;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
    EXPECT_EQ(error.place(), "folder");
  }
}

TEST(GgufTokenizerRefusal, WhatGgufCannotState) {
  expect_refused(golden("bytelevel-prefix")["tokenizer"], "no pre-tokenizer");
  Json tokenizer = golden("bytelevel-gpt2")["tokenizer"];
  expect_refused(tokenizer, "ids, the vocabulary table 10 rows", 10, Code::bad_file);
  tokenizer["normalizer"] = {{"type", "Lowercase"}};  // GGUF's models have no key for it
  expect_refused(tokenizer, "differs in the text");
  tokenizer = golden("bytelevel-gpt2")["tokenizer"];
  tokenizer["added_tokens"][0]["rstrip"] = true;
  expect_refused(tokenizer, "looks at the characters beside it");
  tokenizer = golden("sentencepiece")["tokenizer"];
  tokenizer["normalizer"]["normalizers"].push_back({{"type", "Lowercase"}});
  expect_refused(tokenizer, "differs in the text");
}

// Merges in an order that scores of tokens cannot give, and neighbours that scores would merge but merges do not.
TEST(GgufTokenizerRefusal, MergesThatAreNoScores) {
  const auto bpe = [](const std::vector<const char*>& merges) {
    Json vocabulary = {{"<s>", 0}, {"</s>", 1}, {"a", 2},   {"b", 3},           {"c", 4},
                       {"ab", 5},  {"bc", 6},   {"abc", 7}, {"\xe2\x96\x81", 8}};
    return Json{
        {"normalizer", golden("sentencepiece")["tokenizer"]["normalizer"]},
        {"decoder", golden("sentencepiece")["tokenizer"]["decoder"]},
        {"added_tokens",
         {{{"id", 0}, {"content", "<s>"}, {"special", true}}, {{"id", 1}, {"content", "</s>"}, {"special", true}}}},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}, {"unk_token", "</s>"}}}};
  };
  const Json keys = gguf_tokenizer(bpe({"a b", "b c", "a bc", "ab c"}), kConfig, nullptr, "llama", false, 9, "folder");
  EXPECT_EQ(keys["tokenizer.ggml.scores"], Json({0.0, 0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, 0.0}));
  // "a" and "bc" never meet: "ab" comes first.
  gguf_tokenizer(bpe({"a b", "b c", "ab c"}), kConfig, nullptr, "llama", false, 9, "folder");
  expect_refused(bpe({"a b", "b c", "a bc"}), "there is no merge of 'ab' and 'c' to 'abc'", 9);
  expect_refused(bpe({"a b", "a bc", "b c", "ab c"}), "the merges to 'abc' do not stand together", 9);
}

// Llama 2's merges of runs of spaces stand in the order of their parts.
TEST(GgufTokenizerShared, Llama2AgreesWithItsVectors) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << "there is no ../shared here";
  const auto folder = *shared / "tokenizers";
  const Json keys = gguf_tokenizer(test::read_json(folder / "llama2/tokenizer.json"),
                                   test::read_json(folder / "llama2/tokenizer_config.json"), nullptr, "llama", false,
                                   32000, "folder");
  EXPECT_EQ(keys["tokenizer.ggml.model"], "llama");
  EXPECT_EQ(keys["tokenizer.ggml.scores"][539], keys["tokenizer.ggml.scores"][308]);
  const Tokenizer tokenizer = Tokenizer::from_gguf(keys, "file");
  const std::string inputs = test::read_text(folder / "vectors/llama-spm.inp"), mark = "\n__ggml_vocab_test__\n";
  std::istringstream outputs(test::read_text(folder / "vectors/llama-spm.out"));
  size_t at = 0, count = 0;
  for (std::string line; std::getline(outputs, line); ++count) {
    const size_t end = inputs.find(mark, at);
    std::istringstream numbers(line);
    std::vector<uint32_t> ids;
    for (uint32_t id = 0; numbers >> id;) ids.push_back(id);
    const std::string text = inputs.substr(at, end == std::string::npos ? end : end - at);
    EXPECT_EQ(tokenizer.encode(text, Special::plain), ids) << text;
    at = end == std::string::npos ? inputs.size() : end + mark.size();
  }
  EXPECT_GT(count, 30u);
}

}  // namespace
}  // namespace weft
