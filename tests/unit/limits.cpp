// Limits of the readers of text, at their edges: the limit is accepted, one more is refused. docs/reliability.md
// lists them; those of files are in format_*.cpp.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/regex.h"
#include "grammar/matcher.h"
#include "support/json_value.h"
#include "template/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace weft {
namespace {

using Json = nlohmann::json;

struct Limit {
  const char* name;
  size_t most;
  std::function<void(size_t)> read;  // something of this size
  std::string refusal;               // a part of the sentence for one more
};

std::string times(size_t count, const std::string& text) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

void render(const std::string& source) {
  const std::vector<Message> messages = {{"user", "a"}};
  ChatTemplate(source, {}, "t").render(messages, true);
}

// A tokenizer.json of three tokens, with one more member.
Tokenizer tokenizer(const char* member, const Json& value) {
  Json json = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
  if (member) json[Json::json_pointer(member)] = value;
  return Tokenizer::from_hf(json, nullptr, nullptr, "t");
}

Json nested(size_t count, Json inner, const char* list) {
  for (size_t i = 0; i < count; ++i) inner = {{"type", "Sequence"}, {list, Json::array({inner})}};
  return inner;
}

void schema(const std::string& text) { Grammar::from_json_schema(text, "s"); }

const Limit kLimits[] = {
    {"bytes of a template", 1 << 20, [](size_t n) { render(std::string(n, 'x')); }, "longer than 1048576"},
    {"tags within tags, the template itself counted", 47,
     [](size_t n) { render(times(n, "{% set x %}") + times(n, "{% endset %}")); }, "more than 48 deep"},
    {"levels of an expression", 200, [](size_t n) { render("{{ 1" + times(n - 1, " ~ 1") + " }}"); }, "200 levels"},
    {"numbers of a range", 100000, [](size_t n) { render("{{ range(" + std::to_string(n) + ") | length }}"); },
     "more than 100000 numbers"},
    {"bytes of a date format", 256, [](size_t n) { render("{{ strftime_now('" + std::string(n, 'x') + "') }}"); },
     "more than 256 bytes"},
    {"lists within lists", 64,
     [](size_t n) {
       render("{% set ns = namespace(x=1) %}{% for i in range(" + std::to_string(n) +
              ") %}{% set ns.x = [ns.x] %}{% endfor %}");
     },
     "nest more than 64 deep"},
    {"bytes of a pattern of a tokenizer", 64 << 10, [](size_t n) { Regex("[" + std::string(n - 2, 'a') + "]", "p"); },
     "longer than 65536"},
    {"characters of a WordPiece word", 1000,
     [](size_t n) {
       tokenizer("/model",
                 {{"type", "WordPiece"}, {"unk_token", "a"}, {"max_input_chars_per_word", n}, {"vocab", {{"a", 0}}}});
     },
     "at most 1000"},
    {"bytes that a normalizer inserts", 64,
     [](size_t n) {
       tokenizer("/normalizer", {{"type", "Prepend"}, {"prepend", std::string(n, 'a')}});
     },
     "more than 64"},
    {"nested normalizers", 16,
     [](size_t n) {
       tokenizer("/normalizer", nested(n, {{"type", "NFC"}}, "normalizers"));
     },
     "nest too deeply"},
    {"nested pre-tokenizers", 16,
     [](size_t n) {
       tokenizer("/pre_tokenizer", nested(n, {{"type", "WhitespaceSplit"}}, "pretokenizers"));
     },
     "too many"},
    {"nested decoders", 16,
     [](size_t n) {
       tokenizer("/decoder", nested(n, {{"type", "Fuse"}}, "decoders"));
     },
     "nest too deeply"},
    {"bytes of a schema", 1 << 20, [](size_t n) { schema("{}" + std::string(n - 2, ' ')); }, "at most 1048576"},
    {"alternatives of oneOf", 64,
     [](size_t n) {
       Json list = Json::array();
       for (size_t i = 0; i < n; ++i) list.push_back({{"const", i}});
       schema(Json{{"oneOf", list}}.dump());
     },
     "at most 64"},
    {"minLength", 100000,
     [](size_t n) {
       schema(Json{{"type", "string"}, {"minLength", n}}.dump());
     },
     "more than 100000"},
};

TEST(Limits, AreWhereTheyAreSaidToBe) {
  for (const Limit& limit : kLimits) {
    try {
      limit.read(limit.most);
    } catch (const Error& error) {
      ADD_FAILURE() << limit.name << ", " << limit.most << ": " << error.what();
    }
    try {
      limit.read(limit.most + 1);
      ADD_FAILURE() << limit.name << ": one more is not refused";
    } catch (const Error& error) {
      EXPECT_NE(error.sentence().find(limit.refusal), std::string::npos) << limit.name << ": " << error.what();
    }
  }
}

// A text of a gigabyte, of which no page is ever read.
TEST(Limits, ATextIsShorterThanAGigabyte) {
  const size_t bytes = size_t{1} << 30;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const Tokenizer one = tokenizer(nullptr, {});
  try {
    one.encode(std::string_view(static_cast<const char*>(memory), bytes), Special::plain);
    ADD_FAILURE() << "it was not refused";
  } catch (const Error& error) {
    EXPECT_NE(error.sentence().find("1073741824 bytes"), std::string::npos) << error.what();
  }
  ::munmap(memory, bytes);
}

}  // namespace
}  // namespace weft
