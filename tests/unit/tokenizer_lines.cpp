// 2,000 lines of mixed scripts, emoji, combining marks, white space and invalid UTF-8 against the output of Hugging
// Face's tokenizers (tests/tools/tokenizer_lines.py).
#include <gtest/gtest.h>

#include <ctime>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/regex.h"
#include "base/utf8.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer_vocabularies.h"

namespace weft {
namespace {

using test::Json;

constexpr char kEnd = '\x1e';
constexpr const char* kNoReference = "----";

const Json& golden() {
  static const Json json = test::read_json(test::golden_folder("tokenizer") / "mixed.json");
  return json;
}

const std::vector<std::string>& lines() {
  static const auto all = [] {
    const std::string text = test::read_text(test::golden_folder("tokenizer") / "mixed-lines.bin");
    std::vector<std::string> out;
    for (size_t at = 0, end; (end = text.find(kEnd, at)) != text.npos; at = end + 1)
      out.push_back(text.substr(at, end - at));
    return out;
  }();
  return all;
}

std::string hash_of(const std::vector<uint32_t>& ids) {
  uint32_t value = 0x811c9dc5;  // FNV-1a
  for (const uint32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8) value = (value ^ (id >> shift & 0xff)) * 0x01000193;
  char text[5];
  std::snprintf(text, sizeof text, "%04x", (value ^ value >> 16) & 0xffff);
  return text;
}

std::string bytes_of(const Tokenizer& tokenizer, const std::vector<uint32_t>& ids) {
  std::string out;
  for (const uint32_t id : ids) out += tokenizer.bytes(id);
  return out;
}

enum class Bytes { kept, lost };  // whether every line comes back byte by byte

// hashes: four digits a line, a space between.
void check(const Tokenizer& tokenizer, const std::string& hashes, Bytes bytes, const std::string& prefix = {}) {
  ASSERT_EQ(lines().size(), 2000u);
  ASSERT_EQ(hashes.size(), lines().size() * 5 - 1);
  int different = 0, compared = 0;
  for (size_t i = 0; i < lines().size(); ++i) {
    const std::vector<uint32_t> ids = tokenizer.encode(lines()[i], Special::plain);
    const std::string expected = hashes.substr(i * 5, 4);
    if (bytes == Bytes::kept) {
      const std::string back = bytes_of(tokenizer, ids);
      ASSERT_TRUE(back == lines()[i] || back == prefix + lines()[i]) << "line " << i << ": " << in_quotes(lines()[i]);
    }
    if (expected == kNoReference) continue;
    ++compared;
    if (hash_of(ids) == expected) continue;
    if (++different <= 5) {
      std::string cut;
      for (const uint32_t id : ids) cut += "[" + tokenizer.bytes(id) + "]";
      ADD_FAILURE() << "line " << i << ": " << in_quotes(lines()[i]) << "\n  gives " << cut;
    }
  }
  EXPECT_EQ(different, 0);
  EXPECT_GT(compared, 1500);
}

class TokenizerLines : public testing::TestWithParam<const char*> {};

Json byte_level_json(const Json& steps) {
  return {{"model", golden()["byte_level"]},
          {"normalizer", steps["normalizer"]},
          {"pre_tokenizer", steps["pre_tokenizer"]},
          {"decoder", {{"type", "ByteLevel"}}}};
}

TEST_P(TokenizerLines, PreTokenizerAgreesWithHuggingFace) {
  const Json& steps = golden()["pre_tokenizers"][GetParam()];
  const auto tokenizer = Tokenizer::from_hf(byte_level_json(steps), nullptr, nullptr, GetParam());
  check(tokenizer, steps["hashes"], steps["normalizer"].is_null() ? Bytes::kept : Bytes::lost);
}

// Pre-tokenizer by its name, as in a GGUF file.
TEST_P(TokenizerLines, NamedPreTokenizerAgreesWithHuggingFace) {
  const Json& steps = golden()["pre_tokenizers"][GetParam()];
  const Json& model = golden()["byte_level"];
  std::vector<std::string> tokens(model["vocab"].size()), merges;
  for (const auto& item : model["vocab"].items()) tokens.at(item.value().get<size_t>()) = item.key();
  for (const Json& merge : model["merges"])
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  const Json metadata = {{"tokenizer.ggml.model", "gpt2"},
                         {"tokenizer.ggml.pre", GetParam()},
                         {"tokenizer.ggml.tokens", tokens},
                         {"tokenizer.ggml.merges", merges}};
  const auto named = Tokenizer::from_gguf(metadata, GetParam());
  // With ignore_merges a piece that is a token stays one however the merges go; a tokenizer.json can say so too.
  Json stated = byte_level_json(steps);
  const std::string name = GetParam();
  stated["model"]["ignore_merges"] = name == "llama-bpe" || name == "tekken" || name == "gpt-4o";
  const auto wanted = Tokenizer::from_hf(stated, nullptr, nullptr, GetParam());
  for (const std::string& line : lines())
    ASSERT_EQ(named.encode(line, Special::plain), wanted.encode(line, Special::plain)) << in_quotes(line);
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerLines,
                         testing::Values("gpt-2", "mpt", "llama-bpe", "qwen2", "qwen35", "smollm", "tekken", "gpt-4o",
                                         "bloom", "deepseek-coder", "deepseek-v3", "seed-coder"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '-');
                           return name;
                         });

Tokenizer trained(const char* name) {
  return Tokenizer::from_hf(golden()["tokenizers"][name]["tokenizer"], nullptr, nullptr, name);
}

TEST(TokenizerLines, SentencePieceAgreesWithHuggingFace) {
  check(trained("sentencepiece"), golden()["tokenizers"]["sentencepiece"]["hashes"], Bytes::lost);
}

TEST(TokenizerLines, UnigramAgreesWithHuggingFace) {
  check(trained("unigram"), golden()["tokenizers"]["unigram"]["hashes"], Bytes::lost);
}

TEST(TokenizerLines, UnigramWithBytesAgreesWithHuggingFace) {
  check(trained("unigram-bytes"), golden()["tokenizers"]["unigram-bytes"]["hashes"], Bytes::lost);
}

// The same unigram model as GGUF states it. Runs of unknown characters may be fused across words there, so lines with
// any are left out.
TEST(TokenizerLines, UnigramFromGguf) {
  const Json& state = golden()["tokenizers"]["unigram"]["tokenizer"];
  const auto wanted = trained("unigram");
  Json tokens = Json::array(), scores = Json::array(), types = Json::array();
  for (const Json& piece : state["model"]["vocab"]) {
    types.push_back(tokens.size() < 2 ? 3 : tokens.size() == 2 ? 2 : 1);
    tokens.push_back(piece[0]);
    scores.push_back(piece[1]);
  }
  for (int unused = 0; unused < 3; ++unused) {  // the table's rows without a token
    tokens.push_back("[PAD" + std::to_string(unused) + "]");
    scores.push_back(-10000.0);
    types.push_back(5);
  }
  Json map = Json::array();
  const std::string packed = state["normalizer"]["normalizers"][0]["precompiled_charsmap"];
  const std::string bytes = from_base64(packed).value_or("");
  for (const char byte : bytes) map.push_back(static_cast<unsigned char>(byte));
  const auto tokenizer = Tokenizer::from_gguf({{"tokenizer.ggml.model", "t5"},
                                               {"tokenizer.ggml.tokens", tokens},
                                               {"tokenizer.ggml.scores", scores},
                                               {"tokenizer.ggml.token_type", types},
                                               {"tokenizer.ggml.precompiled_charsmap", map},
                                               {"tokenizer.ggml.remove_extra_whitespaces", true},
                                               {"tokenizer.ggml.add_space_prefix", true}},
                                              "unigram");
  int compared = 0;
  for (const std::string& line : lines()) {
    const auto ids = wanted.encode(line, Special::plain);
    if (std::find(ids.begin(), ids.end(), 2u) != ids.end()) continue;
    ++compared;
    EXPECT_EQ(tokenizer.encode(line, Special::plain), ids) << in_quotes(line);
  }
  EXPECT_GT(compared, 1000);
}

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  std::vector<std::string> out;
  for (const Span& span : Regex(pattern, "test").find_all(text))
    out.push_back(text.substr(span.begin, span.end - span.begin));
  return out;
}

// As pre_tokenizers.Split(Regex(pattern)) of Hugging Face's tokenizers 0.23 cuts.
TEST(TokenizerLines, PatternsMeanWhatOnigurumaMakesOfThem) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(matches(R"(\s+$)", "a \nb \n"), (Texts{" ", " \n"}));  // the end of a line
  EXPECT_EQ(matches("^b", "a\nb"), Texts{"b"});
  EXPECT_EQ(matches(R"(\s)", "a\u180eb\u0085c\u200bd\u1680e\x1c"), (Texts{"\u0085", "\u1680"}));
  EXPECT_EQ(matches(R"(\w+)", "a_b\u0301c\u200dd\u203fe\u00bdf\u2160g"),
            (Texts{"a_b\u0301c", "d\u203fe\u00bdf\u2160g"}));
  EXPECT_EQ(matches(R"([^\s|[.,]]+)", "ab|c [d].e"), (Texts{"ab", "c", "[d]", "e"}));
  EXPECT_EQ(matches(R"([[:alpha:]]+)", "ab1"), Texts{"ab"});
  EXPECT_EQ(matches(R"([]a]+)", "x]a"), Texts{"]a"});
  for (const char* pattern : {"[a&&b]", "[a[^b]]"}) EXPECT_THROW(Regex(pattern, "test"), Error) << pattern;
}

// Every match looks through the whole text: each of them is within the bounds of one, but not all together.
TEST(TokenizerLines, PatternsHaveSoMuchTimeForAText) {
  const std::string text(200000, 'a');
  const std::clock_t begin = std::clock();
  EXPECT_THROW(matches("a.*b|a", text), Error);
  EXPECT_LT(std::clock() - begin, 6 * CLOCKS_PER_SEC);
  EXPECT_EQ(matches(R"(\s+(?!\S)|\s+|\S+)", std::string(1000000, ' ') + "a").size(), 3u);
  EXPECT_EQ(matches("a|b", text).size(), text.size());
}

TEST(TokenizerLines, HostileCharsmapsAreRefused) {
  const auto word = [](uint32_t value) {
    std::string out;
    for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xff);
    return out;
  };
  for (const std::string& bytes : {std::string(), word(0), word(3) + "abc", word(8) + word(0), word(0xfffffffc)})
    EXPECT_THROW(Charsmap(bytes, "test"), Error) << bytes.size();
  // Two units: the root, whose child for 'a' is unit 1 = 0 ^ 'a' only where the offset says so; then a leaf far away.
  const uint32_t root = ('a' ^ 1u) << 10, child = 'a' | 1u << 8 | 0x1fffffu << 10;
  const Charsmap far(word(8) + word(root) + word(child) + std::string(1, '\0'), "test");
  EXPECT_THROW(far.apply("a"), Error);
  EXPECT_EQ(far.apply("b"), "b");
  const uint32_t leaf = 'a' | 1u << 8;  // its own leaf: the value is taken from unit 1, beyond the replacements
  EXPECT_THROW(Charsmap(word(8) + word(root) + word(leaf) + "x", "test").apply("a"), Error);
}

TEST(TokenizerLines, RealVocabulariesAgreeWithHuggingFace) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << "no ../shared beside the checkout and WEFT_SHARED is not set";
  const auto folder = *shared / "tokenizers";
  const Json& real = golden()["real"];
  check(Tokenizer::from_gguf(test::gguf_of_vocab_and_merges(folder / "gpt2", "gpt-2", Json::array()), "gpt2"),
        real["gpt2"], Bytes::kept);
  check(Tokenizer::from_gguf(test::gguf_of_vocab_and_merges(folder / "qwen2.5", "qwen2", Json::array()), "qwen2.5"),
        real["qwen2.5"], Bytes::lost);
  check(Tokenizer::from_gguf(test::gguf_of_tiktoken(folder / "llama3/tokenizer.model", "llama-bpe"), "llama3"),
        real["llama3"], Bytes::kept);
  check(Tokenizer::from_hf(test::read_json(folder / "llama2/tokenizer.json"), nullptr, nullptr, "llama2"),
        real["llama2"], Bytes::kept, " ");
}

}  // namespace
}  // namespace weft
