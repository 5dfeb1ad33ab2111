// Streaming, pieces of a prompt, and untrusted metadata.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer_vocabularies.h"

namespace weft {
namespace {

using test::Json;
using Ids = std::vector<uint32_t>;

// A tokenizer whose token b + 3 is the byte b, after three control tokens; then "ab", "</s>" spelled by characters, and
// a user's token.
Json byte_metadata() {
  Json tokens = {"<unk>", "<s>", "</s>"}, types = {2, 3, 3}, scores = {0, 0, 0};
  for (int b = 0; b < 256; ++b) {
    const std::string digits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + digits[static_cast<size_t>(b / 16)] + digits[static_cast<size_t>(b % 16)] +
                     ">");
    types.push_back(6);
    scores.push_back(0);
  }
  for (const char* text : {"a", "b", "ab", "<", "/", "s", ">", "</", "s>"}) {
    tokens.push_back(text);
    types.push_back(1);
    scores.push_back(-1);
  }
  tokens.push_back("<tool>");
  types.push_back(4);
  scores.push_back(0);
  return {{"tokenizer.ggml.model", "llama"},          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.scores", scores},          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.bos_token_id", 1},         {"tokenizer.ggml.eos_token_id", 2},
          {"tokenizer.ggml.add_space_prefix", false}, {"tokenizer.chat_template", "{{ 'x' }}"}};
}

Json byte_level_metadata() {
  Json tokens = Json::array(), types = Json::array();
  for (int b = 0; b < 256; ++b) {
    tokens.push_back(test::byte_level_spelling(std::string(1, static_cast<char>(b))));
    types.push_back(1);
  }
  for (const char* text : {"he", "ll", "hell", "hello"}) {
    tokens.push_back(text);
    types.push_back(1);
  }
  tokens.push_back("<|im_end|>");
  types.push_back(3);
  return {{"tokenizer.ggml.model", "gpt2"},
          {"tokenizer.ggml.pre", "llama-bpe"},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", {"h e", "l l", "he ll", "hell o"}},
          {"tokenizer.ggml.eos_token_id", 260}};
}

uint32_t byte_id(unsigned char byte) { return byte + 3u; }

// ---- Parts of a vocabulary ----

TEST(Tokenizer, ByteTokensWriteAnyText) {
  for (const Json& metadata : {byte_metadata(), byte_level_metadata()}) {
    const Tokenizer tokenizer = Tokenizer::from_gguf(metadata, "t");
    std::string bytes;
    for (uint32_t id = 0; id < tokenizer.size(); ++id) {
      if (tokenizer.is_byte_token(id)) bytes += tokenizer.bytes(id);
    }
    ASSERT_EQ(bytes.size(), 256u);  // "a" beside "<0x61>" is not one of them
    for (size_t b = 0; b < 256; ++b) EXPECT_EQ(static_cast<unsigned char>(bytes[b]), b);
    EXPECT_FALSE(tokenizer.is_byte_token(tokenizer.size()));
  }
}

// FNV-1a over the kind, the length in 8 bytes and the spelling of each token, worked out by another program.
TEST(Tokenizer, FingerprintIsTheSameOnEveryMachine) {
  const Json metadata = {{"tokenizer.ggml.model", "llama"},
                         {"tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0x0A>", "ab", "\u2581"}},
                         {"tokenizer.ggml.scores", {0, 0, 0, 0, -1, -2}},
                         {"tokenizer.ggml.token_type", {2, 3, 3, 6, 1, 1}}};
  EXPECT_EQ(Tokenizer::from_gguf(metadata, "t").fingerprint(), 0x3074dd01cedc72e9u);
}

TEST(Tokenizer, FingerprintTellsVocabulariesApart) {
  const Json good = byte_metadata();
  const uint64_t fingerprint = Tokenizer::from_gguf(good, "t").fingerprint();
  const auto changed = [&](const char* pointer, const Json& value) {
    Json metadata = good;
    metadata[Json::json_pointer(pointer)] = value;
    return Tokenizer::from_gguf(metadata, "another place").fingerprint();
  };
  const char* last = "/tokenizer.ggml.tokens/268";
  EXPECT_EQ(good[Json::json_pointer(last)], "<tool>");
  EXPECT_EQ(changed(last, "<tool>"), fingerprint);
  EXPECT_EQ(changed("/tokenizer.ggml.scores/260", -7), fingerprint);
  EXPECT_EQ(changed("/tokenizer.chat_template", "another"), fingerprint);
  EXPECT_NE(changed(last, "<tool"), fingerprint);
  EXPECT_NE(changed("/tokenizer.ggml.token_type/268", 3), fingerprint);  // a control token
  Json swapped = good["tokenizer.ggml.tokens"];
  std::swap(swapped[259], swapped[260]);
  EXPECT_NE(changed("/tokenizer.ggml.tokens", swapped), fingerprint);
  Json moved = good["tokenizer.ggml.tokens"];  // the same letters, parted elsewhere
  moved[266] = "<", moved[267] = "/s>";
  EXPECT_NE(changed("/tokenizer.ggml.tokens", moved), fingerprint);
}

// ---- Streaming ----

// Each push gives only whole characters, however the text is cut: here byte by byte.
TEST(TextStream, NeverGivesHalfACharacter) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(byte_metadata(), "bytes");
  const std::string valid =
      "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7z\xE2\x96\x81";
  StreamDecoder stream(tokenizer);
  std::string out;
  for (const char c : valid) {
    const std::string piece = stream.push(byte_id(static_cast<unsigned char>(c)));
    EXPECT_EQ(valid_utf8_prefix(piece), piece.size());
    out += piece;
    // All that is complete is out.
    const std::string_view so_far = std::string_view(valid).substr(0, out.size());
    EXPECT_EQ(out, so_far);
  }
  EXPECT_EQ(out, valid);
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStream, BytesThatAreNoTextBecomeReplacements) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(byte_metadata(), "bytes");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\xFF", "\uFFFD"},
      {"a\x80z", "a\uFFFDz"},
      {"\xE2\x82", "\uFFFD"},  // cut short: one for the whole beginning
      {"\xE2\x82z", "\uFFFDz"},
      {"\xC0\xAF", "\uFFFD\uFFFD"},            // overlong
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},  // a surrogate
      {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF0\x9F\x98\xC3\xA9", "\uFFFD\u00E9"},
      {"\xF0\x9F\xE2\x82\xAC\xF0", "\uFFFD\u20AC\uFFFD"},
  };
  for (const auto& [bytes, text] : cases) {
    StreamDecoder stream(tokenizer);
    std::string out;
    Ids ids;
    for (const char c : bytes) {
      ids.push_back(byte_id(static_cast<unsigned char>(c)));
      out += stream.push(ids.back());
    }
    out += stream.finish();
    EXPECT_EQ(out, text);
    EXPECT_EQ(tokenizer.decode(ids), text);
    EXPECT_EQ(stream.push(byte_id('q')), "q") << "finish() leaves the decoder as new";
  }
}

// All texts of up to three bytes out of an awkward alphabet: stream and whole decode agree, and what is valid comes
// back.
TEST(TextStream, AgreesWithDecodeOnEveryShortText) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(byte_metadata(), "bytes");
  const std::vector<unsigned char> alphabet = {0x00, 'a',  0x7F, 0x80, 0x8F, 0x9F, 0xA0, 0xBF, 0xC1,
                                               0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF};
  std::function<void(Ids, std::string)> extend = [&](Ids ids, std::string bytes) {
    StreamDecoder stream(tokenizer);
    std::string out;
    for (const uint32_t id : ids) out += stream.push(id);
    out += stream.finish();
    EXPECT_EQ(out, tokenizer.decode(ids));
    EXPECT_EQ(valid_utf8_prefix(out), out.size());
    if (valid_utf8_prefix(bytes) == bytes.size()) {
      EXPECT_EQ(out, bytes);
    }
    if (ids.size() == 3) return;
    for (const unsigned char byte : alphabet) {
      Ids longer = ids;
      longer.push_back(byte_id(byte));
      extend(longer, bytes + static_cast<char>(byte));
    }
  };
  extend({}, "");
}

TEST(TextStream, ControlTokensAndUnknownIdsGiveNothing) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(byte_metadata(), "bytes");
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(byte_id(0xC3)), "");
  for (const uint32_t id : {0u, 1u, 2u, 999999u, UINT32_MAX}) {
    EXPECT_EQ(stream.push(id), "");
    EXPECT_EQ(tokenizer.bytes(id), "");
    EXPECT_TRUE(tokenizer.is_control(id));
  }
  EXPECT_EQ(tokenizer.spelling(UINT32_MAX), "");
  EXPECT_EQ(stream.push(byte_id(0xA9)), "\u00E9");
}

// ---- Encoding ----

TEST(Tokenizer, ByteFallbackWritesWhatIsNoToken) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(byte_metadata(), "bytes");
  EXPECT_EQ(tokenizer.encode("ab\xC3\xA9", Special::plain), (Ids{261, byte_id(0xC3), byte_id(0xA9)}));
  EXPECT_EQ(tokenizer.encode("a\xFFz", Special::plain), (Ids{259, byte_id(0xFF), byte_id('z')}));
  EXPECT_EQ(tokenizer.encode("<0x41>", Special::parse).front(), 262u) << "typed, a byte token's spelling is characters";
  EXPECT_EQ(tokenizer.encode("", Special::parse), Ids{});
}

// The pieces "</" and "s>" merge to "</s>" by score, unless control tokens are kept out of merging.
TEST(Tokenizer, MergingGivesNoControlToken) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(byte_metadata(), "bytes");
  EXPECT_EQ(tokenizer.encode("</s>", Special::plain), (Ids{266, 267}));
  EXPECT_EQ(tokenizer.encode("</s>", Special::parse), Ids{2});
  EXPECT_EQ(tokenizer.encode("a<tool>b", Special::plain), (Ids{259, 268, 260}))
      << "not a control token: found in plain text too";
  EXPECT_EQ(tokenizer.bytes(268), "<tool>");
}

// GGUF has no key for white space that a token takes: llama.cpp knows Phi-3 and ModernBERT by their names.
TEST(Tokenizer, GgufTokensOfSomeModelsTakeWhiteSpace) {
  Json phi3 = byte_metadata();
  for (const char* token : {"<|user|>", "<|end|>"}) {
    phi3["tokenizer.ggml.tokens"].push_back(token);
    phi3["tokenizer.ggml.token_type"].push_back(3);
    phi3["tokenizer.ggml.scores"].push_back(0);
  }
  const std::string turn = "<|user|>\na\nb<|end|>\n\n<s>\nb";
  const uint32_t line = byte_id('\n');
  EXPECT_EQ(Tokenizer::from_gguf(phi3, "t").encode(turn, Special::parse),
            (Ids{269, line, 259, line, 260, 270, line, line, 1, line, 260}));
  phi3["general.architecture"] = "phi3";
  EXPECT_EQ(Tokenizer::from_gguf(phi3, "t").encode(turn, Special::parse),
            (Ids{269, 259, line, 260, 270, 1, line, 260}));
  Json bert = byte_level_metadata();
  bert["tokenizer.ggml.tokens"].push_back("[MASK]");
  bert["tokenizer.ggml.token_type"].push_back(3);
  EXPECT_EQ(Tokenizer::from_gguf(bert, "t").encode("hello [MASK] !", Special::parse), (Ids{259, ' ', 261, ' ', '!'}));
  bert["general.architecture"] = "modern-bert";
  EXPECT_EQ(Tokenizer::from_gguf(bert, "t").encode("hello [MASK] !", Special::parse), (Ids{259, 261, ' ', '!'}));
}

// llama.cpp has several names for the same patterns.
TEST(Tokenizer, OtherNamesOfTheSamePreTokenizers) {
  const auto ids_with = [](const char* name) {
    Json metadata = byte_level_metadata();
    metadata["tokenizer.ggml.pre"] = name;
    return Tokenizer::from_gguf(metadata, name).encode("hello  IT'S 1234, x\n\n y", Special::plain);
  };
  const std::pair<const char*, std::vector<const char*>> same[] = {
      {"gpt-2", {"a.x-4.0", "gigachat", "granite-docling", "jina-de", "jina-es", "mellum", "trillion"}},
      {"llama-bpe", {"falcon-h1", "midm-2.0", "pixtral"}},
      {"qwen2", {"grok-2", "hunyuan", "kormo", "solar-open"}},
      {"smollm", {"mellum2"}},
      {"gpt-4o", {"kanana2", "minimax-m2"}}};
  for (const auto& [usual, others] : same)
    for (const char* other : others) EXPECT_EQ(ids_with(other), ids_with(usual)) << other;
}

TEST(Tokenizer, PiecesTokeniseAsOneText) {
  const Tokenizer tokenizer = Tokenizer::from_gguf(byte_level_metadata(), "bytes");
  using Piece = TextPiece;
  const auto encode = [&](std::vector<Piece> pieces) { return tokenizer.encode(std::span<const Piece>(pieces)); };
  EXPECT_EQ(encode({{"he", Special::parse}, {"ll", Special::plain}, {"o", Special::parse}}), Ids{259});
  EXPECT_EQ(encode({{"hello<|im_end|>", Special::parse}}), (Ids{259, 260}));
  EXPECT_EQ(encode({{"hello", Special::plain}, {"<|im_end|>", Special::parse}, {"hello", Special::plain}}),
            (Ids{259, 260, 259}));
  // A token's text that is split over a border or typed becomes characters.
  for (const auto& pieces :
       {std::vector<Piece>{{"<|im_", Special::parse}, {"end|>", Special::plain}},
        std::vector<Piece>{{"<|im_end|", Special::plain}, {">", Special::parse}},
        std::vector<Piece>{{"<", Special::parse}, {"|", Special::plain}, {"im_end|>", Special::parse}},
        std::vector<Piece>{{"<|im_end|>", Special::plain}}}) {
    EXPECT_EQ(encode(pieces), tokenizer.encode("<|im_end|>", Special::plain));
    EXPECT_EQ(encode(pieces).size(), 10u);
  }
  EXPECT_EQ(encode({}), Ids{});
}

TEST(Tokenizer, SaysHowATextBeginsAndEnds) {
  const Tokenizer spm = Tokenizer::from_gguf(byte_metadata(), "bytes");
  EXPECT_TRUE(spm.add_bos());
  EXPECT_EQ(spm.bos(), 1u);
  EXPECT_EQ(spm.stop_ids(), Ids{2});
  EXPECT_EQ(spm.chat_template(), "{{ 'x' }}");
  EXPECT_EQ(spm.named_tokens().at("eos_token"), "</s>");
  Json metadata = byte_level_metadata();
  EXPECT_TRUE(Tokenizer::from_gguf(metadata, "b").add_bos()) << "Llama 3 adds BOS";
  metadata["tokenizer.ggml.pre"] = "qwen2";
  metadata.erase("tokenizer.ggml.eos_token_id");
  const Tokenizer qwen = Tokenizer::from_gguf(metadata, "b");
  EXPECT_FALSE(qwen.add_bos());
  EXPECT_EQ(qwen.stop_ids(), Ids{260}) << "known by its spelling";
  EXPECT_FALSE(qwen.eos().has_value());
}

// Phi-3 ends a turn with <|end|>; gpt-oss a message, after which it goes on to its answer.
TEST(Tokenizer, HarmonysMessagesEndBeforeTheTurn) {
  Json metadata = byte_level_metadata();
  metadata.erase("tokenizer.ggml.eos_token_id");
  const auto stops = [&](const std::vector<std::string>& spellings) {
    Json own = metadata;
    for (const std::string& one : spellings) {
      own["tokenizer.ggml.tokens"].push_back(one);
      own["tokenizer.ggml.token_type"].push_back(3);
    }
    const Tokenizer tokenizer = Tokenizer::from_gguf(own, "t");
    std::vector<std::string> names;
    for (const std::string& one : spellings)
      for (const uint32_t id : tokenizer.stop_ids())
        if (tokenizer.encode(one, Special::parse) == Ids{id}) names.push_back(one);
    return names;
  };
  EXPECT_EQ(stops({"<|end|>", "<|user|>"}), std::vector<std::string>{"<|end|>"});
  EXPECT_EQ(stops({"<|return|>", "<|start|>", "<|end|>", "<|call|>"}),
            (std::vector<std::string>{"<|return|>", "<|call|>"}));
  EXPECT_EQ(stops({"<|tool_response>", "<tool_response|>"}), std::vector<std::string>{"<|tool_response>"});
}

TEST(Tokenizer, GenerationConfigListsStopIds) {
  const Json golden = test::read_json(test::golden_folder("tokenizer") / "tokenizer-sentencepiece.json");
  const Tokenizer one = Tokenizer::from_hf(golden["tokenizer"], nullptr, {{"eos_token_id", 7}}, "g");
  EXPECT_EQ(one.eos(), 7u);
  EXPECT_EQ(one.bos(), 1u) << "the post-processor puts it first";
  EXPECT_TRUE(one.add_bos());
  const uint32_t end = one.encode("<|end|>", Special::parse).at(0);
  EXPECT_EQ(one.stop_ids(), (Ids{7, end}));
  const Tokenizer two =
      Tokenizer::from_hf(golden["tokenizer"], {{"eos_token", {{"content", "</s>"}}}, {"add_bos_token", false}},
                         {{"eos_token_id", {9, 2}}}, "g");
  EXPECT_EQ(two.eos(), 2u);
  EXPECT_FALSE(two.add_bos());
  EXPECT_EQ(two.stop_ids(), (Ids{2, 9, end}));
}

// ---- Hostile metadata ----

void expect_error(const std::function<void()>& action, Code code, const std::string& part) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(TextHostile, GgufErrorsNameWhatDisagrees) {
  const auto with = [](Json metadata, const char* key, const Json& value) {
    metadata[key] = value;
    return [metadata] { Tokenizer::from_gguf(metadata, "m.gguf"); };
  };
  const Json spm = byte_metadata(), bpe = byte_level_metadata();
  expect_error(with(spm, "tokenizer.ggml.model", "rwkv"), Code::unsupported, "'rwkv'");
  expect_error(with(spm, "tokenizer.ggml.model", 3), Code::bad_file, "tokenizer.ggml.model");
  expect_error(with(spm, "tokenizer.ggml.tokens", Json::array()), Code::bad_file, "0 tokens");
  expect_error(with(spm, "tokenizer.ggml.tokens", {1, 2}), Code::bad_file, "a string");
  expect_error(with(spm, "tokenizer.ggml.scores", {1.0}), Code::bad_file, "1 entries but there are 269 tokens");
  expect_error(with(spm, "tokenizer.ggml.scores", nullptr), Code::bad_file, "tokenizer.ggml.scores");
  expect_error(with(spm, "tokenizer.ggml.bos_token_id", 269), Code::bad_file, "269");
  expect_error(with(spm, "tokenizer.ggml.eos_token_id", -1), Code::bad_file, "-1");
  expect_error(with(spm, "tokenizer.ggml.eos_token_id", 1e99), Code::bad_file, "whole number");
  expect_error(with(spm, "tokenizer.ggml.eos_token_id", UINT64_MAX), Code::bad_file, "18446744073709551615");
  expect_error(with(spm, "tokenizer.ggml.token_type", {1}), Code::bad_file, "1 entries");
  expect_error(with(spm, "tokenizer.ggml.add_bos_token", "yes"), Code::bad_file, "true or false");
  expect_error(with(bpe, "tokenizer.ggml.pre", "nonesuch"), Code::unsupported, "'nonesuch'");
  expect_error(with(bpe, "tokenizer.ggml.merges", {"h"}), Code::bad_file, "'h'");
  expect_error(with(bpe, "tokenizer.ggml.merges", {""}), Code::bad_file, "two tokens");
  expect_error(with(bpe, "tokenizer.ggml.merges", {"h hell"}), Code::bad_file, "'hhell', which is no token");
  expect_error([] { Tokenizer::from_gguf(Json(), "m.gguf"); }, Code::bad_file, "tokenizer.ggml.model");
  Json nan = spm;
  nan["tokenizer.ggml.scores"][5] = std::nan("");
  expect_error([&] { Tokenizer::from_gguf(nan, "m.gguf"); }, Code::bad_file, "not a number");
  Json infinite = spm;
  infinite["tokenizer.ggml.scores"][261] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Tokenizer::from_gguf(infinite, "m.gguf").encode("ab", Special::plain), Ids{261});
}

TEST(TextHostile, HuggingFaceErrorsNameWhatDisagrees) {
  const Json good = test::read_json(test::golden_folder("tokenizer") / "tokenizer-bytelevel-llama3.json")["tokenizer"];
  const auto at = [&](const char* pointer, const Json& value) {
    Json changed = good;
    changed[Json::json_pointer(pointer)] = value;
    return [changed] { Tokenizer::from_hf(changed, nullptr, nullptr, "t"); };
  };
  expect_error(at("/model/type", "WordLevel"), Code::unsupported, "'WordLevel'");
  expect_error(at("/model/vocab", {{"a", 4000000000u}}), Code::bad_file, "4000000000");
  expect_error(at("/model/vocab", {{"a", 0}, {"b", 0}}), Code::bad_file, "same id 0");
  expect_error(at("/model/vocab", {{"a", "0"}}), Code::bad_file, "whole number");
  expect_error(at("/model/merges", {{{"a", 1}}}), Code::bad_file, "");
  expect_error(at("/normalizer", {{"type", "Unheard"}}), Code::unsupported, "'Unheard'");
  expect_error(at("/pre_tokenizer", {{"type", "UnicodeScripts"}}), Code::unsupported, "'UnicodeScripts'");
  expect_error(at("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}}), Code::bad_file, "'(a'");
  expect_error(at("/decoder", {{"type", "CTC"}}), Code::unsupported, "'CTC'");
  expect_error([&] { Tokenizer::from_hf(good, nullptr, {{"eos_token_id", 5000000}}, "t"); }, Code::bad_file, "5000000");
  expect_error(
      [&] {
        Tokenizer::from_hf(good, {{"added_tokens_decoder", {{"x1", {{"content", "z"}}}}}}, nullptr, "t");
      },
      Code::bad_file, "'x1'");
  expect_error([&] { Tokenizer::from_hf(Json::array(), nullptr, nullptr, "t"); }, Code::bad_file, "tokenizer.json");
  Json nested = {{"type", "NFC"}};
  for (int i = 0; i < 1000; ++i) nested = {{"type", "Sequence"}, {"normalizers", Json::array({nested})}};
  expect_error(at("/normalizer", nested), Code::bad_file, "nest too deeply");
  expect_error(at("/pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}), Code::bad_file, "'length' is 0");
  expect_error(at("/pre_tokenizer", {{"type", "CharDelimiterSplit"}, {"delimiter", "ab"}}), Code::bad_file,
               "one character");
  // Each step but the last doubles the characters that are not ASCII.
  const Json step = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  Json doubling = good;
  doubling["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::vector<Json>(40, step)}};
  const Tokenizer doubles = Tokenizer::from_hf(doubling, nullptr, nullptr, "t");
  expect_error([&] { doubles.encode("\xC3\xA9", Special::plain); }, Code::bad_file, "longer than");
}

// Every value of good files replaced by one of the wrong type: an Error or a tokenizer that works, nothing else.
TEST(TextHostile, AnyWrongTypeIsAnErrorAtMost) {
  const std::vector<Json> wrong = {nullptr,       true,           -1,       4294967295u,  1e300, "", "\xFF\xFE",
                                   Json::array(), Json::object(), {1, "x"}, {{"type", 1}}};
  int refused = 0, accepted = 0;
  const auto attempt = [&](const std::function<Tokenizer()>& make) {
    try {
      const Tokenizer tokenizer = make();
      const Ids ids = tokenizer.encode("hello <|end|> \xF0\x9F\x98\x80\xFF w\xC3\xA9 12", Special::parse);
      tokenizer.decode(ids);
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  };
  for (const Json& value : wrong) {
    for (const Json& good : {byte_metadata(), byte_level_metadata()}) {
      for (const auto& item : good.items()) {
        Json changed = good;
        changed[item.key()] = value;
        attempt([&] { return Tokenizer::from_gguf(changed, "m.gguf"); });
        if (!item.value().is_array()) continue;
        changed = good;
        changed[item.key()][1] = value;
        attempt([&] { return Tokenizer::from_gguf(changed, "m.gguf"); });
      }
    }
  }
  for (const char* name : {"sentencepiece", "metaspace", "bytelevel-qwen2"}) {
    Json good =
        test::read_json(test::golden_folder("tokenizer") / ("tokenizer-" + std::string(name) + ".json"))["tokenizer"];
    Json vocab = good["model"]["vocab"], merges = good["model"]["merges"];
    // Few merges and a vocabulary kept whole make each attempt quick.
    good["model"]["merges"] = Json(merges.begin(), merges.begin() + 5);
    std::vector<Json::json_pointer> places;
    const Json flat = good.flatten();
    for (const auto& item : flat.items()) {
      Json::json_pointer place(item.key());
      if (item.key().starts_with("/model/vocab/") && !item.key().ends_with("a")) continue;
      for (; !place.empty(); place = place.parent_pointer()) {
        if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
      }
    }
    for (const auto& place : places) {
      for (const Json& value : wrong) {
        Json changed = good;
        changed[place] = value;
        attempt([&] {
          return Tokenizer::from_hf(changed, {{"bos_token", value}, {"chat_template", value}},
                                    {{"eos_token_id", value}}, "t");
        });
        attempt([&] { return Tokenizer::from_hf(changed, nullptr, nullptr, "t"); });
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(accepted, 100);
}

// Patterns and replacements that never end on a harmless text.
TEST(TextHostile, RunawayPatternsAreErrors) {
  Json changed = test::read_json(test::golden_folder("tokenizer") / "tokenizer-bytelevel-llama3.json")["tokenizer"];
  changed["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a+)+$"}}}, {"behavior", "Isolated"}, {"invert", false}};
  const Tokenizer slow = Tokenizer::from_hf(changed, nullptr, nullptr, "t");
  expect_error([&] { slow.encode(std::string(5000, 'a') + "b", Special::plain); }, Code::bad_file, "pattern");
  Json doubling = Json::array();
  for (int i = 0; i < 60; ++i)
    doubling.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  changed["pre_tokenizer"] = nullptr;
  changed["normalizer"] = {{"type", "Sequence"}, {"normalizers", doubling}};
  const Tokenizer growing = Tokenizer::from_hf(changed, nullptr, nullptr, "t");
  expect_error([&] { growing.encode("banana", Special::plain); }, Code::bad_file, "blows");
}

}  // namespace
}  // namespace weft
