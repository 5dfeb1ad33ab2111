// Calls that need no device ask whether their result is still wanted, and end if it is not.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/capi_options.h"
#include "support/capi_test.h"
#include "weft/text.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr const char* kTemplate =
    "{% for m in messages %}{% for n in range(40) %}{% set x = n + 1 %}{% endfor %}{{ m.content }}{% endfor %}";

// Answers "wanted" so many times, and notes the longest time between two questions.
struct Patience {
  explicit Patience(size_t times) : left(times) {
    weft_set_wanted(
        [](void* user) {
          Patience& self = *static_cast<Patience*>(user);
          const Clock::time_point now = Clock::now();
          self.longest = std::max(self.longest, now - self.last);
          self.last = now;
          ++self.asked;
          return self.left-- > 0 ? 1 : 0;
        },
        this);
  }
  ~Patience() { weft_set_wanted(nullptr, nullptr); }
  size_t left, asked = 0;
  Clock::time_point last = Clock::now();
  Clock::duration longest = {};
};

class WantedTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    make_gguf(folder_ / "chat.gguf", LlamaShape(), {DType::q8_0, 5, kTemplate});
    weft_error error = {};
    ASSERT_EQ(weft_model_load((folder_ / "chat.gguf").c_str(), nullptr, &model_, &error), WEFT_OK) << error.sentence;
    ASSERT_EQ(weft_session_create(model_, nullptr, &session_, nullptr), WEFT_OK);
  }
  void TearDown() override {
    weft_session_free(session_);
    weft_model_free(model_);
    CapiModelTest::TearDown();
  }
  weft_status set_grammar(weft_grammar_kind kind, const std::string& grammar) {
    return test::change_request(session_, [&](weft_request& request) {
      request.grammar_kind = kind;
      request.grammar = grammar.c_str();
    });
  }
  // Calls that take some milliseconds or more, and what they are.
  std::vector<std::pair<std::string, std::function<weft_status()>>> calls() {
    std::string words = "root ::= ";
    Json schema = {{"type", "object"}}, messages = Json::array();
    for (int i = 0; i < 2000; ++i) {
      const std::string word = "word" + std::to_string(i * 7919);
      words += (i ? " | \"" : "\"") + word + "\"";
      schema["properties"]["p" + std::to_string(i % 20)]["enum"].push_back(word);
      messages.push_back({{"role", "user"}, {"content", word}});
    }
    const std::string conversation = Json{{"messages", messages}}.dump(), text(1 << 20, 'a');
    return {{"tokenize",
             [=, this] {
               size_t count = 0;
               return weft_tokenize(model_, text.data(), text.size(), 0, 0, nullptr, 0, &count, nullptr);
             }},
            {"template",
             [=, this] {
               size_t count = 0;
               return weft_apply_chat_template_json(model_, conversation.c_str(), nullptr, 0, &count, nullptr);
             }},
            {"schema", [=, this] { return set_grammar(WEFT_GRAMMAR_JSON_SCHEMA, schema.dump()); }},
            {"grammar", [=, this] { return set_grammar(WEFT_GRAMMAR_GBNF, words); }},
            {"pattern", [=, this] { return set_grammar(WEFT_GRAMMAR_REGEX, "([a-f]+[0-9]*|[^a-z]{1,40}){1,60}"); }}};
  }

  weft_model* model_ = nullptr;
  weft_session* session_ = nullptr;
};

TEST_F(WantedTest, AllIsWantedUntilSomebodyIsAsked) {
  for (const auto& [name, call] : calls()) EXPECT_EQ(call(), WEFT_OK) << name;
}

TEST_F(WantedTest, CallsAskOften) {
  for (const auto& [name, call] : calls()) {
    Patience patience(SIZE_MAX);
    EXPECT_EQ(call(), WEFT_OK) << name;
    patience.longest = std::max(patience.longest, Clock::now() - patience.last);
    EXPECT_GT(patience.asked, 50U) << name;
    EXPECT_LT(patience.longest, std::chrono::milliseconds(100)) << name;
  }
}

TEST_F(WantedTest, CallsEndAtOnce) {
  for (const auto& [name, call] : calls()) {
    for (const size_t times : {size_t{0}, size_t{1}, size_t{30}}) {
      Patience patience(times);
      EXPECT_EQ(call(), WEFT_CANCELLED) << name << ", " << times;
      EXPECT_EQ(patience.asked, times + 1) << name;
    }
    EXPECT_EQ(call(), WEFT_OK) << name;  // another one is as good as ever
  }
}

TEST_F(WantedTest, TheErrorSaysWhoEndedIt) {
  const Patience patience(0);
  const std::string text(1 << 16, 'a');
  size_t count = 0;
  weft_error error = {};
  EXPECT_EQ(weft_tokenize(model_, text.data(), text.size(), 0, 0, nullptr, 0, &count, &error), WEFT_CANCELLED);
  EXPECT_STREQ(error.sentence, "the result is not wanted any more");
  EXPECT_STREQ(error.place, "weft_set_wanted");
}

}  // namespace
}  // namespace weft
