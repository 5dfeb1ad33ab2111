// Keep-lists: presets, files, the algebra of their terms, and every way they are refused.
#include "keep/keep_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "keep/presets.h"
#include "tokenizer_vocabularies.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using test::Json;
using Ids = std::vector<uint32_t>;

class Keep : public testing::Test {
 protected:
  Keep() : folder_(fs::temp_directory_path() / ("weft-keep-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~Keep() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string file(const std::string& name, const std::string& content) const {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  fs::path folder_;
};

// Control tokens 0 to 2, bytes 3 to 258, then texts.
constexpr uint32_t kFirstByte = 3, kFirstText = 259;
const std::vector<std::string> kTexts = {
    "a",      "\u2581the", "42",   "\u25817", "\u2581\u2581", "\u00e9t\u00e9", "\u0434", "\u4e2d", "\u4e2da",
    "\u3002", "...",       "\n\t", "\u2019",  "\u20ac5",      "\U0001f600",    "\u0661", "x y",    "dup"};

Json toy_metadata() {
  Json tokens = {"<unk>", "<s>", "</s>"}, types = {2, 3, 3};
  for (int b = 0; b < 256; ++b) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", b);
    tokens.push_back(text);
    types.push_back(6);
  }
  for (const std::string& text : kTexts) {
    tokens.push_back(text);
    types.push_back(1);
  }
  tokens.push_back("dup");  // two tokens of one text
  types.push_back(4);
  return {{"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.scores", std::vector<int>(tokens.size(), 0)},
          {"tokenizer.ggml.token_type", types}};
}

const Tokenizer& toy() {
  static const Tokenizer tokenizer = Tokenizer::from_gguf(toy_metadata(), "toy");
  return tokenizer;
}

uint32_t toy_id(const std::string& text) {
  const auto at = std::find(kTexts.begin(), kTexts.end(), text);
  EXPECT_NE(at, kTexts.end()) << text;
  return kFirstText + static_cast<uint32_t>(at - kTexts.begin());
}

// Texts of the toy that a list keeps; control tokens are always kept.
std::vector<std::string> kept_texts(const std::string& list) {
  const Ids ids = make_keep_list(list, toy()).ids;
  EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  for (uint32_t id = 0; id < kFirstByte; ++id) EXPECT_EQ(ids.at(id), id);
  std::vector<std::string> texts;
  for (const uint32_t id : ids)
    if (id >= kFirstText) texts.push_back(toy().spelling(id));
  return texts;
}

using Texts = std::vector<std::string>;

// ---- presets ----

TEST_F(Keep, PresetsOfTheToy) {
  EXPECT_EQ(kept_texts("ascii"),
            (Texts{"a", "\u2581the", "42", "\u25817", "\u2581\u2581", "...", "\n\t", "x y", "dup", "dup"}));
  EXPECT_EQ(kept_texts("latin"), (Texts{"a", "\u2581the", "42", "\u25817", "\u2581\u2581", "\u00e9t\u00e9", "...",
                                        "\n\t", "\u2019", "\u20ac5", "\U0001f600", "x y", "dup", "dup"}));
  EXPECT_EQ(kept_texts("cyrillic"), (Texts{"\u0434"}));
  EXPECT_EQ(kept_texts("digits"), (Texts{"42", "\u25817"}));
  EXPECT_EQ(kept_texts("cjk"), (Texts{"\u4e2d", "\u3002"}));
  EXPECT_EQ(kept_texts("punctuation"), (Texts{"\u3002", "...", "\u2019", "\U0001f600"}));
}

// "!digits" takes no token of white space alone.
TEST_F(Keep, SpacesStayWhenTheirNeighboursGo) {
  const Texts left = kept_texts("!cjk,!digits,!punctuation,!cyrillic");
  EXPECT_NE(std::find(left.begin(), left.end(), "\u2581\u2581"), left.end());
  EXPECT_EQ(std::find(left.begin(), left.end(), "\u25817"), left.end());
}

// The values of the byte tokens that a list keeps.
std::vector<uint32_t> kept_bytes(const std::string& list) {
  std::vector<uint32_t> bytes;
  for (const uint32_t id : make_keep_list(list, toy()).ids)
    if (id >= kFirstByte && id < kFirstText) bytes.push_back(id - kFirstByte);
  return bytes;
}

TEST_F(Keep, PresetsAreExact) {
  EXPECT_EQ(kept_bytes("digits"), (Ids{'0', '1', '2', '3', '4', '5', '6', '7', '8', '9'}));
  EXPECT_EQ(kept_bytes("ascii").size(), 128u);
  const Ids cyrillic = kept_bytes("cyrillic");  // U+0400 to U+052F, and blocks that begin with E1, E2 and EA
  for (const uint32_t byte : {0xD0u, 0xD3u, 0xD4u, 0x80u, 0xBFu})
    EXPECT_TRUE(std::ranges::binary_search(cyrillic, byte)) << byte;
  for (const uint32_t byte : {0x30u, 0x61u, 0xC3u, 0xE4u, 0xF0u, 0xFFu})
    EXPECT_FALSE(std::ranges::binary_search(cyrillic, byte)) << byte;
  EXPECT_EQ(kept_bytes("digits,bytes").size(), 256u);
  EXPECT_EQ(kept_bytes("bytes,digits,cyrillic,!cyrillic").size(), 256u);
  EXPECT_EQ(kept_bytes("digits,cyrillic,!digits"), cyrillic);
}

TEST_F(Keep, OtherListsWriteAnyTextUnlessTheySayOtherwise) {
  const std::string path = file("list", std::to_string(toy_id("a")) + "\n" + std::to_string(kFirstByte + 'b'));
  for (const std::string& list : {path, "digits," + path, std::string("!digits"), std::string("!cjk,digits")}) {
    EXPECT_EQ(kept_bytes(list).size(), 256u) << list;
    EXPECT_TRUE(make_keep_list(list, toy()).add_prompt) << list;
    EXPECT_FALSE(make_keep_list(list + ",!prompt", toy()).add_prompt) << list;
  }
  EXPECT_EQ(kept_bytes(path + ",!bytes"), (Ids{'b'}));
  EXPECT_EQ(kept_bytes("!bytes," + path + ",digits").size(), 11u);
  // Without single bytes that are no characters, no text of another script can be spelled.
  const Ids left = kept_bytes("!cjk,!bytes");
  EXPECT_EQ(left.size(), 128u);
  EXPECT_EQ(left.back(), 127u);
}

TEST_F(Keep, WithoutControlTokensATextCanEnd) {
  ASSERT_EQ(toy().stop_ids(), (Ids{2}));
  Ids ids = make_keep_list("cyrillic,!control", toy()).ids;
  EXPECT_EQ(ids.front(), 2u);
  EXPECT_GE(ids.at(1), kFirstByte);
  ids.insert(ids.begin(), {0, 1});
  EXPECT_EQ(ids, make_keep_list("cyrillic", toy()).ids);
  EXPECT_EQ(make_keep_list("!control,cyrillic,control", toy()).ids, ids);
}

// Byte-level BPE's tokens may begin and end inside a character.
TEST_F(Keep, PartsOfCharacters) {
  Json tokens = Json::array(), types = Json::array();
  for (int b = 0; b < 256; ++b) tokens.push_back(test::byte_level_spelling(std::string(1, static_cast<char>(b))));
  const Texts texts = {
      "\xE2\x80",          // 256: the head of punctuation, of no script
      " \xD0",             // 257: a space and the head of a Cyrillic letter
      "\xD0\xB4\xD0",      // 258: a Cyrillic letter and a head
      "\x99s",             // 259: the tail of an apostrophe, among others, and a letter
      "\x80\x99",          // 260: two bytes of a tail
      "\x9F\x98",          // 261: from the middle of an emoji
      "\xE4\xB8",          // 262: the head of Chinese letters only
      "a\xFF",             // 263: no text
      "\x80\x80\x80\x80",  // 264: no text either
      "\xC3\xA9\x99",      // 265: a tail after a whole character
  };
  for (const std::string& text : texts) tokens.push_back(test::byte_level_spelling(text));
  for (size_t i = 0; i < tokens.size(); ++i) types.push_back(1);
  const Tokenizer tokenizer = Tokenizer::from_gguf({{"tokenizer.ggml.model", "gpt2"},
                                                    {"tokenizer.ggml.pre", "gpt-2"},
                                                    {"tokenizer.ggml.tokens", tokens},
                                                    {"tokenizer.ggml.token_type", types},
                                                    {"tokenizer.ggml.merges", Json::array()}},
                                                   "t");
  const auto kept = [&](const char* list) {
    const Ids ids = make_keep_list(list, tokenizer).ids;
    EXPECT_EQ(always_kept(tokenizer).size(), 256u);
    return Ids(std::ranges::lower_bound(ids, 256u), ids.end());
  };
  EXPECT_EQ(kept("latin"), (Ids{256, 259, 260, 261}));
  EXPECT_EQ(kept("cyrillic"), (Ids{257, 258}));
  EXPECT_EQ(kept("cjk"), (Ids{260, 261, 262}));
  EXPECT_EQ(kept("ascii"), Ids{});
  // The middle of an emoji is nothing else here.
  const std::vector<bool> emoji = preset_tokens({"emoji", "[\\x{1F600}-\\x{1F64F}]", false, ""}, tokenizer);
  Ids found;
  for (uint32_t id = 256; id < tokenizer.size(); ++id)
    if (emoji[id]) found.push_back(id);
  EXPECT_EQ(found, Ids{261});
}

TEST_F(Keep, PresetsOfRealTokenizers) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << "no ../shared beside the checkout and WEFT_SHARED is not set";
  const auto folder = *shared / "tokenizers";
  const Tokenizer tokenizers[] = {
      Tokenizer::from_gguf(test::gguf_of_vocab_and_merges(folder / "gpt2", "gpt-2", {"<|endoftext|>"}), "gpt2"),
      Tokenizer::from_gguf(test::gguf_of_vocab_and_merges(folder / "qwen2.5", "qwen2", {"<|im_end|>"}), "qwen2.5"),
      Tokenizer::from_gguf(test::gguf_of_tiktoken(folder / "llama3/tokenizer.model", "llama-bpe"), "llama3"),
      Tokenizer::from_gguf(test::gguf_of_llama2c(folder / "llama2/tokenizer.bin"), "llama2")};
  // Every token of a text of this kind is kept: byte tokens are what any text can fall back on, but none is needed.
  const std::pair<const char*, const char*> texts[] = {
      {"ascii", "The quick brown fox's 12 lazy dogs; 3.50 + 4 = 7.5\n\n\tdone."},
      {"ascii", "def f(x):\n        return x[0] != y->z && !(a << 2)  # 0x1F\n"},
      {"latin", "Ça va? Größe, señor – “naïve” … 12 € ’til Łódź, Đà Nẵng 😀"},
      {"latin,greek", "Καλημέρα, what?"},
      {"latin,cyrillic", "Привет, мир! Ёлка, їжак 5."},
      {"latin,arabic", "مرحبا بالعالم، ١٢"},
      {"latin,hebrew", "שלום עולם."},
      {"latin,devanagari", "नमस्ते दुनिया।"},
      {"latin,cjk", "你好，世界。こんにちは！カタカナ 안녕하세요"},
      {"digits", "0123456789"}};
  for (const Tokenizer& tokenizer : tokenizers) {
    for (const auto& [list, text] : texts) {
      const Ids kept = make_keep_list(list, tokenizer).ids;
      EXPECT_LT(kept.size(), tokenizer.size());
      for (const uint32_t id : tokenizer.encode(text, Tokenizer::Special::plain)) {
        // SentencePiece's mark before the first word may be a token of its own.
        const bool space = tokenizer.bytes(id) == " ";
        EXPECT_TRUE(space || std::binary_search(kept.begin(), kept.end(), id))
            << list << ": " << tokenizer.spelling(id);
      }
    }
    // `ascii` keeps exactly the tokens that a look at the bytes gives.
    const Ids ascii = make_keep_list("ascii", tokenizer).ids;
    for (uint32_t id = 0; id < tokenizer.size(); ++id) {
      const std::string bytes = tokenizer.bytes(id);
      const bool expected =
          std::all_of(bytes.begin(), bytes.end(), [](char c) { return (c & 0x80) == 0; }) || tokenizer.is_control(id);
      EXPECT_EQ(std::binary_search(ascii.begin(), ascii.end(), id), expected) << id;
    }
    // `digits` writes digits.
    for (const uint32_t id : make_keep_list("digits,!control", tokenizer).ids) {
      const std::string bytes = tokenizer.bytes(id);
      const bool ends = std::ranges::find(tokenizer.stop_ids(), id) != tokenizer.stop_ids().end();
      EXPECT_TRUE(ends || bytes.find_first_not_of(" \t\n0123456789") == std::string::npos) << bytes;
    }
    // No whole Chinese or Cyrillic letter is among the Latin ones.
    for (const uint32_t id : make_keep_list("latin", tokenizer).ids) {
      const std::string bytes = tokenizer.bytes(id);
      for (std::string_view rest = bytes; !rest.empty(); rest.remove_prefix(first_utf8(rest).size)) {
        const Utf8Char c = first_utf8(rest);
        EXPECT_FALSE(c.valid && ((c.code >= 0x4E00 && c.code < 0xA000) || (c.code >= 0x400 && c.code < 0x500))) << id;
      }
    }
  }
}

// ---- terms ----

TEST_F(Keep, TermsAreWorkedOffFromLeftToRight) {
  EXPECT_EQ(kept_texts("digits,cyrillic"), (Texts{"42", "\u25817", "\u0434"}));
  EXPECT_EQ(kept_texts("digits,cyrillic,!digits"), (Texts{"\u0434"}));
  EXPECT_EQ(kept_texts("!digits,digits").size(), kTexts.size() + 1);  // all, less some, and those again
  EXPECT_EQ(kept_texts("!latin"), (Texts{"\u0434", "\u4e2d", "\u4e2da", "\u3002", "\u0661"}));
}

TEST_F(Keep, ThePromptIsAFlag) {
  EXPECT_FALSE(make_keep_list("digits", toy()).add_prompt);
  const KeepList list = make_keep_list("!prompt,digits", toy());
  EXPECT_FALSE(list.add_prompt);
  EXPECT_EQ(list.ids, make_keep_list("digits", toy()).ids);  // no subtraction: it does not begin from everything
  EXPECT_TRUE(make_keep_list("digits,prompt", toy()).add_prompt);
}

TEST_F(Keep, ControlAndByteTokensAlwaysStay) {
  Ids expected(kFirstText);
  for (uint32_t id = 0; id < kFirstText; ++id) expected[id] = id;
  EXPECT_EQ(always_kept(toy()), expected);
  const std::string all_but_one = [] {
    std::string text;
    for (uint32_t id = 0; id < toy().size(); ++id)
      if (id != toy_id("a")) text += std::to_string(id) + "\n";
    return text;
  }();
  EXPECT_EQ(kept_texts("!" + file("most", all_but_one)), (Texts{"a"}));
}

// The laws of sets, on random lists.
TEST_F(Keep, UnionAndSubtraction) {
  std::mt19937 random(7);
  const auto make_set = [&] {
    std::vector<bool> set(toy().size());
    for (size_t id = 0; id < set.size(); ++id) set[id] = random() % 3 == 0;
    set[kFirstText] = true;  // none is empty
    return set;
  };
  const auto write = [&](const std::string& name, const std::vector<bool>& set) {
    Ids ids;
    for (uint32_t id = 0; id < set.size(); ++id)
      if (set[id]) ids.push_back(id);
    std::shuffle(ids.begin(), ids.end(), random);
    std::string text;
    for (const uint32_t id : ids) text += std::to_string(id) + (random() % 2 ? "\n" : " # one\r\n\n");
    return file(name, text);
  };
  for (int round = 0; round < 40; ++round) {
    std::vector<std::vector<bool>> sets;
    Texts paths;
    for (int i = 0; i < 4; ++i) {
      sets.push_back(make_set());
      paths.push_back(write("set" + std::to_string(i), sets.back()));
    }
    // A random sequence of terms against the same done by hand.
    std::vector<bool> expected(toy().size());
    std::string list;
    for (int term = 0; term < 6; ++term) {
      const size_t which = random() % 4;
      const bool subtract = random() % 2 != 0;
      if (term == 0 && subtract) expected.assign(expected.size(), true);
      for (size_t id = 0; id < expected.size(); ++id)
        if (sets[which][id]) expected[id] = !subtract;
      list += (term ? "," : "") + std::string(subtract ? "!" : "") + paths[which];
    }
    // One term at the end, so that the list is never empty.
    list += "," + paths[0];
    for (uint32_t id = 0; id < expected.size(); ++id)
      expected[id] = expected[id] || sets[0][id] || toy().is_control(id) || toy().is_byte_token(id);
    const Ids ids = make_keep_list(list, toy()).ids;
    Ids wanted;
    for (uint32_t id = 0; id < expected.size(); ++id)
      if (expected[id]) wanted.push_back(id);
    EXPECT_EQ(ids, wanted) << list;

    const auto of = [&](const std::string& terms) { return make_keep_list(terms, toy()).ids; };
    const std::string &a = paths[0], &b = paths[1], &c = paths[2];
    EXPECT_EQ(of(a + "," + b), of(b + "," + a));
    EXPECT_EQ(of(a + "," + a), of(a));
    EXPECT_EQ(of(a + "," + b + ",!" + b + "," + b), of(a + "," + b));
    EXPECT_EQ(of("digits,!" + b + ",!" + c + "," + a), of("digits,!" + c + ",!" + b + "," + a));
  }
}

// ---- files ----

TEST_F(Keep, FilesOfIdsAndTexts) {
  const std::string content =
      "# a comment\n\n  " + std::to_string(toy_id("42")) + "  \n" + std::to_string(toy_id("42")) +
      "\n\" the\"   # its text as it decodes\n\"\\u00e9t\\u00e9\"\r\n\"a\"\n\"\\n\\t\"#\n0\n\"\U0001f600\"";
  EXPECT_EQ(kept_texts(file("list", content)), (Texts{"a", "\u2581the", "42", "\u00e9t\u00e9", "\n\t", "\U0001f600"}));
}

TEST_F(Keep, AFileMayHaveAPresetsName) {
  const fs::path before = fs::current_path();
  file("digits", std::to_string(toy_id("a")));
  fs::current_path(folder_);
  EXPECT_EQ(kept_texts("./digits"), (Texts{"a"}));
  EXPECT_EQ(kept_texts("digits").size(), 2u);
  fs::current_path(before);
}

TEST_F(Keep, WhatIsWrittenIsReadAgain) {
  const Ids ids = make_keep_list("digits,cyrillic,bytes", toy()).ids;
  const fs::path path = folder_ / "written";
  Ids shuffled = ids;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  write_keep_list(path, shuffled, toy());
  EXPECT_EQ(make_keep_list(path.string(), toy()).ids, ids);
  const std::string text = test::read_text(path);
  EXPECT_TRUE(text.starts_with("# weft-keep fingerprint=" + fingerprint_text(toy().fingerprint()) +
                               " tokens=" + std::to_string(toy().size()) + "\n0\n1\n"))
      << text.substr(0, 100);
  write_keep_list(path, Ids{toy_id("a")}, toy());  // over the old one
  EXPECT_EQ(kept_texts(path.string()), (Texts{"a"}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "a temporary file was left behind";
}

// ---- refusals ----

struct Refusal {
  Code code;
  std::string place, sentence;
};

Refusal refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.sentence().find('\n'), std::string::npos) << error.sentence();
    return {error.code(), error.place(), error.sentence()};
  }
  ADD_FAILURE() << "nothing was refused";
  return {};
}

Refusal refusal_of(const std::string& list) {
  return refusal([&] { make_keep_list(list, toy()); });
}

TEST_F(Keep, WrongTermsAreRefused) {
  for (const char* list : {"", ",", "ascii,", ",ascii", "ascii,,latin", "!", "ascii,!"}) {
    const Refusal no = refusal_of(list);
    EXPECT_EQ(no.code, Code::invalid_argument) << list;
    EXPECT_EQ(no.place, "keep:" + std::string(list));
    EXPECT_NE(no.sentence.find("is empty"), std::string::npos) << no.sentence;
  }
  const Refusal unknown = refusal_of("ascii,klingon");
  EXPECT_EQ(unknown.code, Code::invalid_argument);
  EXPECT_EQ(unknown.sentence,
            "\"klingon\" is neither a file nor a preset, which are ascii, latin, greek, cyrillic, arabic, hebrew, "
            "devanagari, cjk, digits, punctuation, nor one of bytes, control and prompt with ! or without");
  EXPECT_EQ(refusal_of("ascii,!klingon").sentence, unknown.sentence);
  for (const char* list : {"ascii,!ascii", "!prompt", "!bytes", "digits,!ascii,!prompt"}) {
    const Refusal no = refusal_of(list);
    EXPECT_EQ(no.code, Code::invalid_argument) << list;
    EXPECT_EQ(no.sentence, "the list keeps no token but control tokens") << list;
  }
  std::string many = "ascii";
  for (int i = 0; i < 64; ++i) many += ",ascii";
  EXPECT_EQ(refusal_of(many).sentence, "there are more than 64 terms");
}

TEST_F(Keep, WrongLinesAreRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {"x", "\"x\" is neither a token's id nor its text as a JSON string"},
      {"-1", "\"-1\" is neither a token's id nor its text as a JSON string"},
      {"1 2", "\"1 2\" is neither a token's id nor its text as a JSON string"},
      {"0x10", "\"0x10\" is neither a token's id nor its text as a JSON string"},
      {std::string("1\0", 2), "\"1\\x00\" is neither a token's id nor its text as a JSON string"},
      {"278", "the id 278 is out of range: the tokenizer's ids are 0 to 277"},
      {"99999999999999999999999", "the id 99999999999999999999999 is out of range: the tokenizer's ids are 0 to 277"},
      {"\"nothing\"", "no token stands for the text \"nothing\""},
      {"\"\"", "no token stands for the text \"\""},
      {"\"<s>\"", "no token stands for the text \"<s>\""},
      {"\"dup\"", "the tokens 276 and 277 both stand for the text \"dup\""},
      {"\"a", "\"a is not one JSON string"},
      {"\"a\\", "\"a\\ is not one JSON string"},
      {"\"a\" \"b\"", "\"a\" \"b\" is not one JSON string"},
      {"\"\\q\"", "\"\\q\" is no valid JSON string"},
      {"\"\\ud800\"", "\"\\ud800\" is no valid JSON string"},
      {"\"\xFF\"", "\"\\xff\" is no valid JSON string"},
      {"# weft-keep", ""},  // a comment like any other
      {"# weft-keep fingerprint=x tokens=278",
       "a line that begins with \"# weft-keep \" must go on with fingerprint=HEX tokens=N"},
      {"# weft-keep fingerprint=" + fingerprint_text(toy().fingerprint()),
       "a line that begins with \"# weft-keep \" must go on with fingerprint=HEX tokens=N"},
      {"# weft-keep fingerprint=00000000000000ff tokens=278",
       "the list was made for a tokenizer of fingerprint 00000000000000ff and 278 tokens, but this model's has "
       "fingerprint " +
           fingerprint_text(toy().fingerprint()) + " and 278 tokens"},
      {"# weft-keep fingerprint=" + fingerprint_text(toy().fingerprint()) + " tokens=7",
       "the list was made for a tokenizer of fingerprint " + fingerprint_text(toy().fingerprint()) +
           " and 7 tokens, but this model's has fingerprint " + fingerprint_text(toy().fingerprint()) +
           " and 278 tokens"}};
  ASSERT_EQ(toy().size(), 278u);
  for (const auto& [line, sentence] : cases) {
    const std::string path = file("wrong", "5\n# fine\n" + line + "\n6\n");
    if (sentence.empty()) {
      EXPECT_NO_THROW(make_keep_list(path, toy())) << line;
      continue;
    }
    const Refusal no = refusal_of("ascii," + path);
    EXPECT_EQ(no.code, Code::bad_file) << line;
    EXPECT_EQ(no.place, path + ":3") << line;
    EXPECT_EQ(no.sentence, sentence) << line;
  }
}

TEST_F(Keep, EmptyFilesAreRefused) {
  for (const char* content : {"", "\n\n", "# nothing", "# weft-keep is here\n"}) {
    const std::string path = file("empty", content);
    const Refusal no = refusal_of(path);
    EXPECT_EQ(no.code, Code::bad_file) << content;
    EXPECT_TRUE(no.place.starts_with(path + ":")) << no.place;
  }
  const std::string empty = file("empty", "");
  EXPECT_EQ(refusal_of(empty).sentence, "the list ends and names no token");
  EXPECT_EQ(refusal_of(empty).place, empty + ":1");
  // Naming only tokens that are always kept makes no list.
  EXPECT_EQ(refusal_of(file("special", "0\n1\n2\n")).sentence, "the list keeps no token but control tokens");
}

TEST_F(Keep, AFileHasALimit) {
  const std::string path = file("large", "3\n");
  fs::resize_file(path, (uintmax_t{1} << 28) + 1);  // takes no room
  EXPECT_EQ(refusal_of(path).sentence, "a keep-list of 268435457 bytes is longer than the limit of 268435456");
}

TEST_F(Keep, WhatIsNoFileIsRefused) {
  EXPECT_EQ(refusal_of(folder_.string()).code, Code::io);
  EXPECT_EQ(refusal_of("/dev/null").code, Code::io);
  EXPECT_EQ(refusal_of(std::string(100000, 'x')).code, Code::io);  // too long a name
  EXPECT_EQ(refusal([&] { write_keep_list(folder_, Ids{5}, toy()); }).code, Code::io);
  EXPECT_EQ(refusal([&] { write_keep_list("/dev/null", Ids{5}, toy()); }).code, Code::io);
  const Refusal no = refusal([&] { write_keep_list(folder_ / "new", Ids{5, 278}, toy()); });
  EXPECT_EQ(no.code, Code::invalid_argument);
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

// Ids between others that no token has: never kept, and refused by name.
TEST_F(Keep, HolesAreNoTokens) {
  const Json tokenizer = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 5}}}, {"merges", Json::array()}}},
                          {"added_tokens", {{{"id", 7}, {"content", "<|end|>"}, {"special", true}}}}};
  const Tokenizer holed = Tokenizer::from_hf(tokenizer, nullptr, nullptr, "t");
  ASSERT_EQ(holed.size(), 8u);
  EXPECT_EQ(always_kept(holed), Ids{7});
  EXPECT_EQ(make_keep_list("!" + file("b", "5"), holed).ids, (Ids{0, 7}));
  EXPECT_EQ(refusal([&] { make_keep_list(file("hole", "3"), holed); }).sentence, "no token has the id 3");
  EXPECT_EQ(refusal([&] { write_keep_list(folder_ / "out", Ids{3}, holed); }).sentence, "no token has the id 3");
}

// Any bytes give a list or a refusal.
TEST_F(Keep, RandomFiles) {
  std::mt19937 random(11);
  const std::string letters = "0123456789\"\\\"#\n\n\n ua,\r\tfx=-\xE2\x96\x81\xFF";
  int accepted = 0, refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string content = random() % 4 == 0 ? "# weft-keep fingerprint=" : "";
    const size_t length = random() % 24;
    for (size_t i = 0; i < length; ++i) content += letters[random() % letters.size()];
    try {
      make_keep_list(file("random", content), toy());
      ++accepted;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 10);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace weft
