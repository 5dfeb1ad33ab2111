// Reasoning apart from the answer: by the C++ API, which calls the C API.
#include "weft/reasoning.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/capi_test.h"
#include "weft/batch.hpp"
#include "weft/text.h"
#include "weft/weft.hpp"

namespace weft {
namespace {

// The prompt ends within the reasoning unless enable_thinking is false, as DeepSeek's and Qwen's do.
constexpr const char* kOpen =
    "{% for m in messages %}{{ m.role }}:{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif "
    "%}{{ m.content }}\n{% endfor %}assistant:{% if enable_thinking is defined and not enable_thinking %}<think>\n\n"
    "</think>\n\n{% else %}<think>\n{% endif %}";
// Only cuts it off earlier answers: the model begins it by itself.
constexpr const char* kByItself =
    "{% for m in messages %}{{ m.role }}:{{ m.content.split('</think>')[-1] }}\n{% endfor %}assistant:";

class ReasoningTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    model_.emplace(made("open.gguf", kOpen));
    session_.emplace(*model_);
  }
  std::string made(const std::string& name, const char* chat_template) const {
    make_gguf(folder_ / name, LlamaShape(), {DType::q8_0, 5, chat_template});
    return (folder_ / name).string();
  }
  struct Answer {
    std::string text, reasoning;
    std::vector<uint32_t> ids = {};
    weft_stop stop = WEFT_STOP_LENGTH;
  };
  Answer generate(uint32_t tokens = 0, uint32_t budget = 0) {
    Answer answer;
    session_->set_reasoning([&](std::string_view text) { return answer.reasoning += text, true; }, budget);
    answer.stop = session_->generate(tokens, [&](uint32_t id, std::string_view text) {
      if (id != WEFT_NO_TOKEN) answer.ids.push_back(id);
      return answer.text += text, true;
    });
    return answer;
  }
  // Answer of a model that writes this text.
  Answer say(const std::string& text) {
    std::string literal;
    for (const char c : text) literal += c == '\n' ? std::string("\\n") : std::string(c == '"' ? 1 : 0, '\\') + c;
    session_->set_grammar(WEFT_GRAMMAR_GBNF, "root ::= \"" + literal + "\"");
    session_->prompt({1, 3, 4, 5});
    return generate();
  }
  // As if the model chose these tokens, each in a call of its own.
  Answer drive(const std::string& text) {
    Answer all;
    for (const uint32_t id : model_->tokenize(text, false)) {
      session_->set_logit_bias({{id, 100.0f}});
      const Answer one = generate(1);
      EXPECT_EQ(one.ids, std::vector<uint32_t>{id});
      all.text += one.text;
      all.reasoning += one.reasoning;
    }
    session_->set_logit_bias({});
    return all;
  }
  std::vector<uint32_t> prompt(const api::Model& model, int think) const {
    const weft_message message = {"user", "hello"};
    return api::detail::ids(
        64, [&](auto... out) { return weft_apply_chat_template_thinking(model.get(), &message, 1, think, out...); });
  }
  std::string prompt_text(const api::Model& model, int think) const { return model.detokenize(prompt(model, think)); }

  std::optional<api::Model> model_;
  std::optional<api::Session> session_;
};

TEST_F(ReasoningTest, IsToldApart) {
  const std::vector<Answer> cases = {{"Yes.", "Oh."}, {"{\"n\": 1}", "a < b </thin"}, {"no marks", ""},
                                     {"", "no end"},  {"a\n\nb", "x\n\ny"},           {"again <think>b</think>", "a"}};
  const std::vector<std::string> said = {
      "<think>Oh.\n</think>\n\nYes.", "<think>\na < b </thin </think>{\"n\": 1}", "no marks", "<think>no end",
      "<think>x\n\ny</think>a\n\nb",  "<think>a</think>again <think>b</think>"};
  for (size_t i = 0; i < cases.size(); ++i) {
    const Answer answer = say(said[i]);
    EXPECT_EQ(answer.text, cases[i].text) << said[i];
    EXPECT_EQ(answer.reasoning, cases[i].reasoning) << said[i];
    EXPECT_EQ(answer.stop, WEFT_STOP_GRAMMAR);
    EXPECT_EQ(answer.ids.size() + 4, session_->ids().size());  // the callback gets all
  }
  session_->set_stops({"Oh", "s."});  // in the answer only
  const Answer stopped = say("<think>Oh.</think>Yes. No.");
  EXPECT_EQ(stopped.text, "Ye");
  EXPECT_EQ(stopped.reasoning, "Oh.");
  EXPECT_EQ(stopped.stop, WEFT_STOP_STRING);
  session_->set_stops({});
  session_->set_reasoning({});
  session_->set_grammar(WEFT_GRAMMAR_GBNF, "root ::= \"<think>Oh.</think>Yes.\"");
  session_->prompt({1, 3});
  std::string all;
  session_->generate(0, [&](uint32_t, std::string_view text) { return all += text, true; });
  EXPECT_EQ(all, "<think>Oh.</think>Yes.");
}

TEST_F(ReasoningTest, ASchemaIsTheAnswers) {
  session_->set_grammar(WEFT_GRAMMAR_JSON_SCHEMA, R"({"enum": [1234, 5678]})");
  for (int turn = 0; turn < 2; ++turn) {
    session_->prompt(prompt(*model_, 1));
    const Answer said = drive("I think <b>.\n</think>");
    EXPECT_EQ(said.reasoning, "I think <b>.");
    EXPECT_EQ(said.text, "");
    const Answer answer = generate();
    EXPECT_TRUE(answer.text == "1234" || answer.text == "5678") << answer.text;
    EXPECT_EQ(answer.reasoning, "");
    EXPECT_EQ(answer.stop, WEFT_STOP_GRAMMAR);
  }
  session_->prompt(prompt(*model_, 0));
  EXPECT_EQ(generate().text.size(), 4u);
  // A prompt in the midst of reasoning gives the grammar back.
  session_->prompt(prompt(*model_, 1));
  generate(3);
  session_->prompt(prompt(*model_, 0));
  EXPECT_EQ(generate().text.size(), 4u);
  session_->prompt(prompt(*model_, 1));
  generate(3);
  session_->set_reasoning({});
  session_->prompt({1, 3});
  std::string text;
  session_->generate(0, [&](uint32_t, std::string_view piece) { return text += piece, true; });
  EXPECT_EQ(text.size(), 4u);
}

TEST_F(ReasoningTest, HasABudget) {
  session_->set_grammar(WEFT_GRAMMAR_JSON_SCHEMA, R"({"enum": [1234, 5678]})");
  for (const uint32_t budget : {1u, 6u, 7u}) {
    const std::vector<uint32_t> ids = prompt(*model_, 1);
    session_->prompt(ids);
    const Answer answer = generate(0, budget);
    EXPECT_TRUE(answer.text == "1234" || answer.text == "5678") << answer.text;
    const std::vector<uint32_t> all = session_->ids();
    const std::string said = model_->detokenize({all.begin() + static_cast<ptrdiff_t>(ids.size() + budget), all.end()});
    EXPECT_EQ(said, "\n</think>\n\n" + answer.text);
  }
  session_->prompt(prompt(*model_, 1));
  const Answer cut = generate(6, 6);  // no token is left for the answer
  EXPECT_EQ(cut.stop, WEFT_STOP_LENGTH);
  EXPECT_EQ(cut.ids.size(), 6u);
  EXPECT_EQ(generate(0, 6).text.size(), 4u);  // which goes on
  // Where the mark does not fit, the context is full.
  api::Session small(*model_, static_cast<uint32_t>(prompt(*model_, 1).size()) + 8);
  small.prompt(prompt(*model_, 1));
  small.set_reasoning([](std::string_view) { return true; }, 4);
  EXPECT_EQ(small.generate(0), WEFT_STOP_CONTEXT);
}

TEST_F(ReasoningTest, TemplatesAreSwitched) {
  EXPECT_EQ(prompt_text(*model_, 1), "user:hello\nassistant:<think>\n");
  EXPECT_EQ(prompt_text(*model_, 0), "user:hello\nassistant:<think>\n\n</think>\n\n");
  const api::Model other(made("by.gguf", kByItself));
  EXPECT_EQ(prompt_text(other, 1), "user:hello\nassistant:<think>\n");
  EXPECT_EQ(prompt_text(other, 0), "user:hello\nassistant:");
  const api::Model always(made("always.gguf", "{{ messages[0].content }}<think>{# </think> #}"));
  EXPECT_EQ(prompt_text(always, 1), "hello<think>");
  EXPECT_EQ(prompt_text(always, 0), "hello<think>\n</think>\n\n");
  const api::Model none(made("none.gguf", "{{ messages[0].content }}!"));
  EXPECT_EQ(prompt_text(none, 1), "hello!");
  EXPECT_EQ(prompt_text(none, 0), "hello!");
  // A user's text is no mark.
  const weft_message message = {"user", "x <think>"};
  const api::Model plain(made("plain.gguf", "{{ messages[0].content }}{# </think> #}"));
  const auto ids = api::detail::ids(
      64, [&](auto... out) { return weft_apply_chat_template_thinking(plain.get(), &message, 1, 0, out...); });
  EXPECT_EQ(plain.detokenize(ids), "x <think>");
  const std::string conversation = R"({"messages": [{"role": "user", "content": "hello"}], "think": )";
  EXPECT_EQ(model_->apply_chat_template_json(conversation + "true}"), prompt(*model_, 1));
  EXPECT_EQ(model_->apply_chat_template_json(conversation + "false}"), prompt(*model_, 0));
  EXPECT_EQ(model_->detokenize(model_->apply_chat_template_json(conversation + "null}")), prompt_text(*model_, 1));
  EXPECT_THROW(model_->apply_chat_template_json(conversation + "1}"), api::Failure);
}

// A model that ends its answer before its reasoning: a grammar gets its text all the same. The stop token leaves the
// context.
TEST_F(ReasoningTest, AnAnswerThatEndsWithinIt) {
  constexpr uint32_t kEnd = 2;
  session_->set_logit_bias({{kEnd, 100.0f}});
  session_->prompt(prompt(*model_, 1));
  EXPECT_EQ(generate().text, "");
  for (const char* const schema : {R"({"enum": [1234, 5678]})", R"({"const": "no"})", R"({"const": [1, null]})"}) {
    session_->set_grammar(WEFT_GRAMMAR_JSON_SCHEMA, schema);
    const std::vector<uint32_t> ids = prompt(*model_, 1);
    session_->prompt(ids);
    const Answer answer = generate();
    EXPECT_TRUE(answer.text == "1234" || answer.text == "5678" || answer.text == "\"no\"" || answer.text == "[1,null]")
        << answer.text;
    EXPECT_EQ(answer.reasoning, "");
    EXPECT_EQ(answer.stop, WEFT_STOP_GRAMMAR);
    ASSERT_FALSE(answer.ids.empty());
    EXPECT_EQ(answer.ids.front(), kEnd);  // the callback gets it
    const std::vector<uint32_t> all = session_->ids();
    ASSERT_GT(all.size(), ids.size());
    const std::vector<uint32_t> said(all.begin() + static_cast<ptrdiff_t>(ids.size()), all.end());
    EXPECT_EQ(std::ranges::count(said, kEnd), 0);
    EXPECT_EQ(model_->detokenize(said), "\n</think>\n\n" + answer.text);
  }
  session_->prompt(prompt(*model_, 1));
  EXPECT_EQ(generate(1).stop, WEFT_STOP_LENGTH);  // no token is left for the answer
  EXPECT_EQ(generate().text, "[1,null]");         // which goes on
}

// Headers of channels belong to no grammar.
TEST_F(ReasoningTest, Channels) {
  model_.emplace(made("channels.gguf",
                      "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
                      "<|start|>assistant{# <|channel|> #}"));
  session_.emplace(*model_);
  const std::string start = "<|start|>user<|message|>hello<|end|><|start|>assistant",
                    analysis = "<|channel|>analysis<|message|>", final = "<|channel|>final<|message|>";
  EXPECT_EQ(prompt_text(*model_, 1), start + analysis);
  EXPECT_EQ(prompt_text(*model_, 0), start + final);
  const std::vector<uint32_t> plain = model_->apply_chat_template({{"user", "hello"}});
  EXPECT_EQ(model_->detokenize(plain), start);
  session_->set_grammar(WEFT_GRAMMAR_JSON_SCHEMA, R"({"enum": [1234, 5678]})");
  for (const std::vector<uint32_t>& ids : {plain, prompt(*model_, 1)}) {
    session_->prompt(ids);
    const Answer answer = generate(0, 5);
    EXPECT_TRUE(answer.text == "1234" || answer.text == "5678") << answer.text;
    EXPECT_NE(answer.reasoning, "");
    EXPECT_EQ(answer.stop, WEFT_STOP_GRAMMAR);
    EXPECT_NE(model_->detokenize(session_->ids()).find("<|end|><|start|>assistant" + final + answer.text),
              std::string::npos);
  }
  // The model ends it itself.
  session_->prompt(plain);
  const Answer said = drive("Oh.<|end|>");
  EXPECT_EQ(said.reasoning, "Oh.");
  const Answer answer = generate();
  EXPECT_TRUE(answer.text == "1234" || answer.text == "5678") << answer.text;
  EXPECT_EQ(answer.reasoning, "");
  session_->prompt(prompt(*model_, 0));
  EXPECT_EQ(generate().text.size(), 4u);
}

TEST_F(ReasoningTest, CallbacksEndIt) {
  session_->prompt(prompt(*model_, 1));
  session_->set_reasoning([](std::string_view) { return false; });
  EXPECT_EQ(session_->generate(0), WEFT_STOP_CALLER);
  session_->set_reasoning([](std::string_view) -> bool { throw std::runtime_error("enough"); });
  EXPECT_THROW(session_->generate(0), std::runtime_error);
  session_->set_reasoning([&](std::string_view) { return session_->cancel(), true; }, 2);
  EXPECT_EQ(session_->generate(0), WEFT_STOP_CALLER);
  api::Batch batch(*model_);
  EXPECT_THROW(batch.add(*session_, 4), api::Failure);
  EXPECT_THROW(api::generate_batch({{*session_, 4}}), api::Failure);
  session_->set_reasoning({});
  batch.add(*session_, 4);
  while (batch.step().empty()) continue;
}

}  // namespace
}  // namespace weft
