// whisper.cpp's ggml-*.bin: what is read of a small one, and errors of those that are cut or changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "format/whisper_file.h"
#include "format/whisper_vocabulary.h"

namespace weft {
namespace {

// A file in memory, whose parts a test changes before it is made.
struct WhisperMaker {
  // Rows, the encoder's positions, width, heads and layers, the decoder's, bands, and the type of the file: 256 tokens
  // of text, 4 times, 8 control tokens and 3 languages.
  std::vector<uint32_t> sizes = {271, 3, 8, 2, 1, 20, 8, 2, 1, 5, 1};
  uint32_t magic = 0x67676d6c, filters = 5, powers = 2, token_count = 256;
  std::vector<std::string> tokens;
  std::string tensors;
  std::vector<size_t> begins;  // of each in `tensors`

  WhisperMaker() {
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string(1, static_cast<char>(byte)));
    add_tensor("encoder.conv1.bias", 0, {1, 8}, 32);
    add_tensor("decoder.blocks.0.cross_attn.query.weight", 1, {8, 8}, 128);
    add_tensor("decoder.blocks.0.mlp.0.weight", 8, {32, 12}, 12 * 34);
    add_tensor("decoder.token_embedding.weight", 6, {32, 3}, 3 * 22);
    add_tensor("encoder.ln_post.bias", 0, {8}, 32);
  }
  void add_tensor(const std::string& name, uint32_t type, const std::vector<uint32_t>& shape, size_t bytes) {
    begins.push_back(tensors.size());
    for (const uint32_t number : {static_cast<uint32_t>(shape.size()), static_cast<uint32_t>(name.size()), type})
      add(tensors, number);
    for (const uint32_t size : shape) add(tensors, size);
    tensors += name + std::string(bytes, '\1');
  }
  static void add(std::string& to, uint32_t number) { to.append(reinterpret_cast<const char*>(&number), 4); }

  std::string make() const {
    std::string file;
    add(file, magic);
    for (const uint32_t size : sizes) add(file, size);
    add(file, filters);
    add(file, powers);
    file.append(size_t{4} * 5 * 2, '\0');
    add(file, token_count);
    for (const std::string& token : tokens) {
      add(file, static_cast<uint32_t>(token.size()));
      file += token;
    }
    return file + tensors;
  }
};

WhisperContents parse(const std::string& file) {
  return parse_whisper_file(std::as_bytes(std::span(file.data(), file.size())), "a.bin");
}

std::string error_of(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.place(), "a.bin");
    return error.sentence();
  }
  return "";
}

TEST(WhisperFile, IsReadAsAFolder) {
  const std::string file = WhisperMaker().make();
  EXPECT_TRUE(is_whisper_file(std::as_bytes(std::span(file.data(), 4))));
  EXPECT_FALSE(is_whisper_file(std::as_bytes(std::span(file.data(), 3))));
  const WhisperContents got = parse(file);
  EXPECT_EQ(got.config["d_model"], JsonValue(8));
  EXPECT_EQ(got.config["decoder_ffn_dim"], JsonValue(12));  // that of the tensor
  EXPECT_EQ(got.config["encoder_ffn_dim"], JsonValue(32));  // without one
  EXPECT_EQ(got.config["decoder_start_token_id"], JsonValue(257));
  EXPECT_EQ(got.generation_config["is_multilingual"], JsonValue(true));
  const JsonValue& added = got.tokenizer["added_tokens"];
  ASSERT_EQ(added.size(), 11u);
  EXPECT_EQ(added[3]["content"], JsonValue("<|zh|>"));
  EXPECT_EQ(added[10]["content"], JsonValue("<|notimestamps|>"));
  EXPECT_EQ(added[10]["id"], JsonValue(266));
  ASSERT_EQ(got.tensors.size(), 5u);
  EXPECT_EQ(got.tensors[0].name, "model.encoder.conv1.bias");
  EXPECT_EQ(got.tensors[0].shape, std::vector<uint64_t>{8});
  EXPECT_EQ(got.tensors[1].name, "model.decoder.layers.0.encoder_attn.q_proj.weight");
  EXPECT_EQ(got.tensors[2].name, "model.decoder.layers.0.fc1.weight");
  EXPECT_EQ(got.tensors[2].shape, (std::vector<uint64_t>{12, 32}));
  EXPECT_EQ(got.tensors[2].dtype, DType::q8_0);
  EXPECT_EQ(got.tensors[3].name, "model.decoder.embed_tokens.weight");
  EXPECT_EQ(got.tensors[3].dtype, DType::q5_0);
  EXPECT_EQ(got.tensors[4].name, "model.encoder.layer_norm.bias");
}

// Early converters wrote <|endoftext|> after the tokens of text: all control tokens keep their places.
TEST(WhisperFile, EndOfTextAmongTheTokensIsNoText) {
  WhisperMaker maker;
  const WhisperContents usual = parse(maker.make());
  maker.tokens.push_back("<|endoftext|>");
  ++maker.token_count;
  const WhisperContents early = parse(maker.make());
  EXPECT_EQ(early.tokenizer, usual.tokenizer);
  EXPECT_EQ(early.config, usual.config);
  EXPECT_EQ(early.generation_config, usual.generation_config);
}

// A file may end before a tensor: the model's reader finds what is missing.
TEST(WhisperFile, CutsAreErrors) {
  const WhisperMaker maker;
  const std::string file = maker.make();
  const size_t header = file.size() - maker.tensors.size();
  for (size_t size = 4; size < file.size(); ++size) {
    const bool whole = size >= header && std::ranges::count(maker.begins, size - header) > 0;
    EXPECT_EQ(error_of(file.substr(0, size)).empty(), whole) << size;
  }
}

TEST(WhisperFile, RefusesWhatItCannotBe) {
  const auto changed = [](auto change) {
    WhisperMaker maker;
    change(maker);
    return error_of(maker.make());
  };
  const auto with_tensor = [&](uint32_t type, const std::vector<uint32_t>& shape, size_t bytes) {
    return changed([&](WhisperMaker& maker) { maker.add_tensor("a", type, shape, bytes); });
  };
  EXPECT_EQ(changed([](WhisperMaker& maker) { maker.sizes[4] = 0; }),
            "the encoder's number of layers is 0, expected 1 to 1048576");
  EXPECT_NE(changed([](WhisperMaker& maker) { maker.sizes[0] = 1u << 31; }), "");
  EXPECT_NE(changed([](WhisperMaker& maker) { maker.sizes[6] = 16; }), "");
  EXPECT_EQ(changed([](WhisperMaker& maker) { maker.filters = 6; }), "there are 6 filters for 5 bands");
  EXPECT_NE(changed([](WhisperMaker& maker) { maker.powers = 1u << 20; }), "");
  EXPECT_NE(changed([](WhisperMaker& maker) { maker.sizes[0] = 268; }).find("should be 9 to 108 other ones"),
            std::string::npos);
  EXPECT_NE(changed([](WhisperMaker& maker) { maker.sizes[0] = 369; }), "");
  EXPECT_NE(changed([](WhisperMaker& maker) { maker.token_count = 1u << 20; }), "");
  EXPECT_EQ(changed([](WhisperMaker& maker) { maker.tokens[9] = "Z"; }), "token 90 is the same as one before: Z");
  EXPECT_EQ(changed([](WhisperMaker& maker) { maker.tokens[9] = std::string(257, 'x'); }),
            "token 9 has 257 bytes, expected at most 256");
  EXPECT_EQ(with_tensor(99, {4}, 16), "not supported: type 99 in model.a");
  EXPECT_EQ(with_tensor(0, {1, 1, 1, 1, 1}, 4), "tensor 5 has 5 dimensions, expected 1 to 4");
  EXPECT_NE(with_tensor(0, {5}, 16), "");
  EXPECT_NE(with_tensor(8, {31, 2}, 68), "");
  EXPECT_NE(with_tensor(0, {1u << 31, 1u << 31, 1u << 31, 1u << 31}, 16), "");
  EXPECT_EQ(with_tensor(0, {4, 0}, 0), "");  // the model's reader refuses its shape
  EXPECT_EQ(changed([](WhisperMaker& maker) { maker.add_tensor("", 0, {1}, 4); }),
            "the name of tensor 5 has 0 bytes, expected 1 to 256");
}

TEST(WhisperVocabulary, MergesAndSuppressesAsOpenAi) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string(1, static_cast<char>(byte)));
  for (const char* token : {"ab", "abc", "bc", "", " (", "((", "\xe2\x99", "\xe2\x99\xaa", " -", "-x"})
    tokens.push_back(token);
  const WhisperVocabulary vocabulary(tokens, 1);
  EXPECT_EQ(vocabulary.encode("abc"), std::vector<uint32_t>{257});
  EXPECT_EQ(vocabulary.encode("bbc"), (std::vector<uint32_t>{'b', 258}));
  const JsonValue tokenizer = vocabulary.tokenizer();
  const JsonValue& merges = tokenizer["model"]["merges"];
  ASSERT_GE(merges.size(), 4u);
  EXPECT_EQ(merges[0], JsonValue("a b"));
  EXPECT_EQ(merges[1], JsonValue("a bc"));
  EXPECT_EQ(merges[2], JsonValue("ab c"));
  EXPECT_EQ(merges[3], JsonValue("b c"));
  EXPECT_EQ(tokenizer["model"]["vocab"]["\u0120("], JsonValue(260));  // a space is written as U+0120
  EXPECT_TRUE(tokenizer["model"]["vocab"].contains(""));
  EXPECT_EQ(tokenizer["added_tokens"][2]["content"], JsonValue("<|en|>"));
  const std::vector<uint32_t> suppressed = vocabulary.suppressed();
  const auto has = [&](uint32_t id) { return std::ranges::find(suppressed, id) != suppressed.end(); };
  EXPECT_TRUE(has('(') && has(260) && has(261) && has(263) && has(264) && has(' ') && has(262));
  EXPECT_FALSE(has('a') || has('!') || has('\'') || has(265));
  EXPECT_TRUE(std::ranges::is_sorted(suppressed));
}

}  // namespace
}  // namespace weft
