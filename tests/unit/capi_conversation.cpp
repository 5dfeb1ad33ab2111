// Conversations: by the C++ API, which calls the C API.
#include "weft/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/capi_test.h"
#include "weft/conversation.hpp"

namespace weft {
namespace {

using api::Conversation;
using Json = nlohmann::json;

constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role }}:{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}"
    "{{ m.content }}\n{% endfor %}{% if tools %}[{{ tools | length }}]{% endif %}assistant:";

class ConversationTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    model_.emplace(made("chat.gguf", kTemplate));
    session_.emplace(*model_, 160);
    begin_session(*session_);
  }
  std::string made(const std::string& name, const char* chat_template) const {
    make_gguf(folder_ / name, LlamaShape(), {DType::q8_0, 5, chat_template});
    return (folder_ / name).string();
  }
  static void begin_session(api::Session& session) {
    weft_sampling greedy = weft_sampling_default();
    greedy.temperature = 0;
    greedy.repeat_penalty = 1.3F;  // so that a tiny model does not repeat a token
    session.set_sampling(greedy);
  }
  static Json messages(const Conversation& conversation) { return Json::parse(conversation.json()).at("messages"); }
  // The answer that the model gives to these messages alone.
  std::string expected(const Json& messages, uint32_t tokens, const api::Model* model = nullptr) const {
    const api::Model& used = model ? *model : *model_;
    api::Session session(used, 160);
    begin_session(session);
    session.prompt(used.apply_chat_template_json(Json{{"messages", messages}}.dump()));
    std::string text;
    session.generate(tokens, [&](uint32_t, std::string_view piece) { return text += piece, true; });
    return text;
  }
  static Json user(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
  static Json assistant(const std::string& text) { return {{"role", "assistant"}, {"content", text}}; }

  std::optional<api::Model> model_;
  std::optional<api::Session> session_;
};

// The status and the sentence of a call that fails.
template <class Call>
std::pair<weft_status, std::string> failure(const Call& call) {
  try {
    call();
  } catch (const api::Failure& failure) {
    return {failure.status(), failure.sentence()};
  }
  return {WEFT_OK, ""};
}

TEST_F(ConversationTest, AnswersAreThoseOfAllThatWasSaid) {
  Conversation conversation(*session_, "brief");
  std::string told;
  const auto tell = [&](uint32_t, std::string_view piece) { return told += piece, true; };
  EXPECT_EQ(conversation.ask("ab", 6, tell), WEFT_STOP_LENGTH);
  Json all = Json::array({{{"role", "system"}, {"content", "brief"}}, user("ab")});
  EXPECT_EQ(told, expected(all, 6));
  all.push_back(assistant(told));
  EXPECT_EQ(messages(conversation), all);
  told.clear();
  const uint64_t computed = session_->stats().prompt_tokens;
  EXPECT_EQ(conversation.ask("cd", 6, tell), WEFT_STOP_LENGTH);
  all.push_back(user("cd"));
  EXPECT_EQ(told, expected(all, 6));
  // Only the new turn was computed, and the last token of the answer.
  EXPECT_LE(session_->stats().prompt_tokens - computed, model_->tokenize("\nuser:cd\nassistant:", false).size() + 2);
  EXPECT_EQ(conversation.forgotten(), 0u);
}

TEST_F(ConversationTest, AnAnswerInPartsIsTheWholeAnswer) {
  Conversation conversation(*session_);
  EXPECT_EQ(conversation.ask("ab", 3), WEFT_STOP_LENGTH);
  EXPECT_EQ(conversation.proceed(4), WEFT_STOP_LENGTH);
  const Json whole = {user("ab"), assistant(expected(Json::array({user("ab")}), 7))};
  EXPECT_EQ(messages(conversation), whole);
  // Something else has used the session in between.
  session_->prompt({1, 2, 3});
  session_->generate(2);
  EXPECT_EQ(conversation.proceed(3), WEFT_STOP_LENGTH);
  EXPECT_EQ(messages(conversation)[1]["content"], expected(Json::array({user("ab")}), 10));
  // A callback that ends it, too.
  EXPECT_EQ(conversation.ask("cd", 0, [](uint32_t, std::string_view) { return false; }), WEFT_STOP_CALLER);
  EXPECT_EQ(conversation.proceed(2), WEFT_STOP_LENGTH);
}

TEST_F(ConversationTest, AnswersAnewAndTakesBack) {
  Conversation conversation(*session_);
  conversation.ask("ab", 4);
  conversation.ask("cd", 4);
  const Json before = messages(conversation);
  EXPECT_EQ(conversation.answer(4), WEFT_STOP_LENGTH);
  EXPECT_EQ(messages(conversation), before);
  EXPECT_EQ(conversation.undo(), "cd");
  EXPECT_EQ(messages(conversation).size(), 2u);
  EXPECT_EQ(conversation.undo(), "ab");
  EXPECT_EQ(conversation.undo(), std::nullopt);
  EXPECT_EQ(failure([&] { conversation.answer(1); }),
            std::pair(WEFT_INVALID_ARGUMENT, std::string("there is no question to answer anew")));
  EXPECT_EQ(failure([&] { conversation.proceed(1); }),
            std::pair(WEFT_INVALID_ARGUMENT, std::string("there is no answer to continue")));
}

TEST_F(ConversationTest, TheOldestTurnsMakeRoom) {
  Conversation conversation(*session_, "s");
  size_t forgotten = 0, times = 0;
  for (int i = 0; i < 12; ++i) {
    conversation.ask("turn " + std::to_string(i), 4);
    times += conversation.forgotten() != forgotten;
    forgotten = conversation.forgotten();
  }
  EXPECT_GT(forgotten, 4u);
  EXPECT_LT(times, 5u) << "not every turn forgets";
  const Json all = messages(conversation);
  EXPECT_EQ(all.size(), 25u) << "they are left out of the context only";
  // The last answer saw the system's message and the newest turns.
  Json seen = Json::array({all[0]});
  for (size_t i = 1 + forgotten; i + 1 < all.size(); ++i) seen.push_back(all[i]);
  EXPECT_EQ(all.back()["content"], expected(seen, 4));
  // Set again, they begin where they did, and little is computed.
  const uint64_t computed = session_->stats().prompt_tokens;
  conversation.set(Json{{"messages", all}}.dump());
  conversation.answer(4);
  EXPECT_EQ(conversation.forgotten(), forgotten);
  EXPECT_EQ(messages(conversation), all);
  EXPECT_LT(session_->stats().prompt_tokens - computed, 10u);
  // So they do in another process.
  Conversation other(*session_);
  other.set(conversation.json());
  EXPECT_EQ(other.forgotten(), forgotten);
  EXPECT_EQ(other.json(), conversation.json());
  for (const char* wrong : {"99", "-1", "true", "1.5"}) {
    other.set(Json{{"messages", all}, {"forgotten", Json::parse(wrong)}}.dump());
    EXPECT_LE(other.forgotten(), forgotten) << wrong;
  }
  conversation.set(Json{{"messages", Json::array({user("other")})}}.dump());
  conversation.answer(4);
  EXPECT_EQ(conversation.forgotten(), 0u);
  conversation.set(Json{{"messages", all}}.dump());
  conversation.answer(4);
  forgotten = conversation.forgotten();
  // A message that does not fit changes nothing.
  const std::pair<weft_status, std::string> failed = failure([&] { conversation.ask(std::string(400, 'x'), 4); });
  EXPECT_EQ(failed.first, WEFT_CONTEXT_FULL);
  EXPECT_NE(failed.second.find("and only 159 fit"), std::string::npos) << failed.second;
  EXPECT_EQ(messages(conversation).size(), all.size());
  EXPECT_EQ(conversation.forgotten(), forgotten);
}

TEST_F(ConversationTest, WhatWasTakenBackMakesRoomAgain) {
  Conversation conversation(*session_);
  conversation.ask("my name is Bo", 4);
  conversation.ask("second", 4);
  EXPECT_EQ(conversation.ask(std::string(120, 'x'), 4), WEFT_STOP_LENGTH) << "it fits alone";
  EXPECT_EQ(conversation.forgotten(), 4u);
  conversation.undo();
  EXPECT_EQ(conversation.forgotten(), 0u);
  conversation.ask("who am I", 4);
  EXPECT_EQ(conversation.forgotten(), 0u);
  // So does removing messages from the JSON; a place that is no turn's beginning counts for nothing.
  Json all = messages(conversation);
  for (const int wrong : {1, 5}) {
    conversation.set(Json{{"messages", all}, {"forgotten", wrong}}.dump());
    conversation.answer(4);
    EXPECT_EQ(conversation.forgotten(), 0u) << wrong;
  }
}

TEST_F(ConversationTest, APromptThatLeavesRoomForTheAnswerIsRead) {
  Conversation conversation(*session_);
  conversation.ask("ab", 4);
  const size_t before = messages(conversation).size();
  conversation.ask(std::string(100, 'x'), 4);  // more than three quarters together, and it fits
  EXPECT_EQ(conversation.forgotten(), 0u);
  EXPECT_EQ(messages(conversation).size(), before + 2);
  // A question that does not fit leaves the answer before it to be continued.
  EXPECT_EQ(failure([&] { conversation.ask(std::string(400, 'x'), 4); }).first, WEFT_CONTEXT_FULL);
  EXPECT_EQ(conversation.proceed(2), WEFT_STOP_LENGTH);
}

TEST_F(ConversationTest, GoesOnAfterAFullContext) {
  Conversation conversation(*session_);
  conversation.ask("ab", 4);
  ASSERT_EQ(conversation.ask("cd", 0), WEFT_STOP_CONTEXT);
  const std::string before = messages(conversation)[3]["content"];
  EXPECT_EQ(failure([&] { conversation.proceed(4); }).first, WEFT_CONTEXT_FULL) << "question and answer fill it";
  EXPECT_EQ(messages(conversation)[3]["content"], before);
  conversation.undo();
  session_->set_grammar(WEFT_GRAMMAR_REGEX, ".*");
  ASSERT_EQ(conversation.ask("cd", 0), WEFT_STOP_CONTEXT);
  EXPECT_EQ(failure([&] { conversation.proceed(4); }).first, WEFT_UNSUPPORTED);
}

TEST_F(ConversationTest, OlderTurnsMakeRoomForAnAnswerThatGoesOn) {
  Conversation conversation(*session_);
  conversation.ask(std::string(80, 'a'), 4);
  ASSERT_EQ(conversation.ask("cd", 0), WEFT_STOP_CONTEXT);
  const Json all = messages(conversation);
  EXPECT_EQ(conversation.proceed(4), WEFT_STOP_LENGTH);
  EXPECT_EQ(conversation.forgotten(), 2u);
  const std::string begun = all[3]["content"], more = messages(conversation)[3]["content"];
  EXPECT_EQ(more.rfind(begun, 0), 0u);
  EXPECT_GT(more.size(), begun.size());
}

TEST_F(ConversationTest, JsonGoesInAndOut) {
  Conversation conversation(*session_);
  const std::string json =
      R"({"tools":[{"z":1,"a":123456789012345678901234567890}],"messages":[{"role":"user","content":"x"},)"
      R"({"role":"tool","content":"9","id":18446744073709551616}],"text":""})";
  conversation.set(json);
  EXPECT_EQ(conversation.json(), json);
  // The result of a tool is answered.
  std::string told;
  conversation.answer(3, [&](uint32_t, std::string_view piece) { return told += piece, true; });
  EXPECT_EQ(messages(conversation)[2], assistant(told));
  EXPECT_EQ(messages(conversation).size(), 3u);
  const Json before = messages(conversation);
  for (const char* wrong : {"", "[]", "{}", R"({"messages":1})", R"({"messages":[1]})", R"({"messages":[],"tools":1})",
                            R"({"messages":[],"think":1})", R"({"messages":[],"variables":[]})"})
    EXPECT_EQ(failure([&] { conversation.set(wrong); }).first, WEFT_INVALID_ARGUMENT) << wrong;
  EXPECT_EQ(messages(conversation), before);
  // A message without text, and a role that is none.
  conversation.set(R"({"messages":[{"role":"user","content":"x","images":3},{"role":"assistant"}]})");
  conversation.answer(2);
  EXPECT_EQ(messages(conversation)[0], user("x"));
  EXPECT_EQ(messages(conversation).size(), 2u);
}

TEST_F(ConversationTest, SavedWithItsSession) {
  Conversation conversation(*session_);
  conversation.ask("ab", 4);
  const std::string path = (folder_ / "chat.session").string();
  session_->save(path, conversation.json());
  conversation.ask("cd", 4);
  const Json whole = messages(conversation);
  api::Session other(*model_, 160);
  Conversation again(other);
  again.set(other.restore(path));
  const uint64_t computed = other.stats().prompt_tokens;
  again.ask("cd", 4);
  EXPECT_EQ(messages(again), whole);
  EXPECT_LT(other.stats().prompt_tokens - computed, 30u) << "what was saved is not computed again";
}

TEST_F(ConversationTest, ReasoningIsKeptApart) {
  const api::Model thinker(
      made("think.gguf",
           "{% for m in messages %}{{ m.role }}:{% if m.reasoning_content %}<think>{{ m.reasoning_content "
           "}}</think>{% endif %}{{ m.content }}\n{% endfor %}assistant:<think>\n"));
  api::Session session(thinker, 160);
  begin_session(session);
  std::string reasoning, text;
  session.set_reasoning([&](std::string_view piece) { return reasoning += piece, true; }, 5);
  Conversation conversation(session);
  conversation.ask("ab", 12, [&](uint32_t, std::string_view piece) { return text += piece, true; });
  const Json answer = messages(conversation)[1];
  EXPECT_FALSE(reasoning.empty());
  EXPECT_EQ(answer["reasoning_content"], reasoning);
  EXPECT_EQ(answer["content"], text);
  // An answer that is cut within its reasoning goes on there, also after another use of the session.
  session.set_reasoning([&](std::string_view piece) { return reasoning += piece, true; });
  conversation.ask(std::string(20, 'x'), 12);
  const Json cut = messages(conversation)[3];
  ASSERT_EQ(cut["content"], "");
  session.prompt({1, 2, 3});
  session.generate(1);
  conversation.proceed(3);
  EXPECT_EQ(messages(conversation)[3]["content"], "");
  const std::string begun = cut["reasoning_content"], more = messages(conversation)[3]["reasoning_content"];
  EXPECT_EQ(more.rfind(begun, 0), 0u);
  EXPECT_GT(more.size(), begun.size());
  // The session's own callback is there again.
  const size_t size = reasoning.size();
  session.prompt(thinker.apply_chat_template({{"user", "cd"}}));
  session.generate(4);
  EXPECT_GT(reasoning.size(), size);
}

// The stop token leaves the context, and what comes after it is the answer.
TEST_F(ConversationTest, AnAnswerThatEndsWithinItsReasoning) {
  constexpr uint32_t kEnd = 2;
  const api::Model thinker(
      made("think.gguf",
           "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}assistant:<think>\n{# </think> #}"));
  api::Session session(thinker, 160);
  begin_session(session);
  session.set_reasoning([](std::string_view) { return true; });
  session.set_logit_bias({{kEnd, 100.0F}});
  session.set_grammar(WEFT_GRAMMAR_JSON_SCHEMA, R"({"const": [1, null]})");
  Conversation conversation(session);
  EXPECT_EQ(conversation.ask("ab"), WEFT_STOP_GRAMMAR);
  EXPECT_EQ(messages(conversation)[1]["content"], "[1,null]");
  EXPECT_EQ(conversation.ask("cd", 1), WEFT_STOP_LENGTH);  // of the reasoning
  EXPECT_EQ(messages(conversation)[3]["content"], "");
  EXPECT_EQ(conversation.proceed(), WEFT_STOP_GRAMMAR);
  EXPECT_EQ(messages(conversation)[3]["content"], "[1,null]");
  const std::vector<uint32_t> ids = session.ids();
  EXPECT_EQ(std::ranges::count(ids, kEnd), 0);
}

// DeepSeek R1's template adds the arguments of calls to a text, and asks whether a content is none.
TEST_F(ConversationTest, ATemplateThatWantsArgumentsAsTexts) {
  const api::Model model(made("texts.gguf",
                              "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ 'ab' + "
                              "c.function.arguments }}{% endfor %}{% endif %}{% if m.content is not none %}[{{ "
                              "m.content }}]{% endif %}{% endfor %}"));
  const auto rendered = [&](const Json& arguments) {
    const Json call = {{"function", {{"name", "f"}, {"arguments", arguments}}}};
    const Json list = {user("cd"), {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}}};
    return model.detokenize(model.apply_chat_template_json(Json{{"messages", list}}.dump()));
  };
  EXPECT_EQ(rendered(R"({"x": 1})"), R"([cd]ab{"x": 1})");
  EXPECT_EQ(rendered(Json{{"x", 1}}), R"([cd]ab{"x":1})");
}

// Hermes and Command-R have a template of its own for conversations with tools.
TEST_F(ConversationTest, ATemplateForTools) {
  const std::filesystem::path folder = folder_ / "tool-use";
  make_huggingface(folder, LlamaShape(), {DType::f16, 5, "a{{ messages[0].content }}"});
  const std::filesystem::path file = folder / "tokenizer_config.json";
  Json config = Json::parse(std::ifstream(file));
  config["chat_template"] = {{{"name", "default"}, {"template", "a{{ messages[0].content }}"}},
                             {{"name", "tool_use"}, {"template", "b{{ messages[0].content }}{{ tools | length }}"}}};
  std::ofstream(file) << config;
  const api::Model model(folder.string());
  const auto rendered = [&](const Json& tools) {
    return model.detokenize(model.apply_chat_template_json(Json{{"messages", {user("cd")}}, {"tools", tools}}.dump()));
  };
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}}}};
  EXPECT_EQ(rendered(Json::array({tool})), "bcd1");
  EXPECT_EQ(rendered(nullptr), "acd");
  EXPECT_EQ(rendered(Json::array()), "acd");
}

TEST_F(ConversationTest, WithoutATemplateATextGrows) {
  const api::Model plain(made("plain.gguf", ""));
  api::Session session(plain, 64);
  begin_session(session);
  Conversation conversation(session, "unused");
  conversation.ask("ab", 3);
  const std::string first = Json::parse(conversation.json())["text"];
  EXPECT_EQ(first.rfind("ab", 0), 0u);
  EXPECT_TRUE(messages(conversation).empty());
  conversation.answer(3);
  EXPECT_EQ(Json::parse(conversation.json())["text"], first);
  conversation.proceed(2);
  EXPECT_EQ(std::string(Json::parse(conversation.json())["text"]).rfind(first, 0), 0u);
  EXPECT_EQ(conversation.undo(), "ab");
  EXPECT_EQ(conversation.undo(), std::nullopt);
  EXPECT_EQ(Json::parse(conversation.json())["text"], "");
  for (int i = 0; i < 6; ++i) conversation.ask("some more words", 3);
  EXPECT_GT(conversation.forgotten(), 0u);
  EXPECT_LT(std::string(Json::parse(conversation.json())["text"]).size(), 60u);
}

TEST_F(ConversationTest, WrongCalls) {
  weft_error error{};
  weft_conversation* made = nullptr;
  EXPECT_EQ(weft_conversation_create(nullptr, nullptr, &made, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_conversation_create(session_->get(), nullptr, nullptr, &error), WEFT_INVALID_ARGUMENT);
  weft_conversation_free(nullptr);
  EXPECT_EQ(weft_conversation_forgotten(nullptr), 0u);
  Conversation conversation(*session_);
  const weft_generate_options options = test::generate_options(2, 0, nullptr, nullptr);
  EXPECT_EQ(weft_conversation_ask(conversation.get(), nullptr, nullptr, 0, &options, nullptr, &error),
            WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_conversation_ask(conversation.get(), "a", nullptr, 1, &options, nullptr, &error),
            WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_conversation_ask(conversation.get(), "a", nullptr, 0, nullptr, nullptr, &error),
            WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_conversation_ask(conversation.get(), "a\xff", nullptr, 0, &options, nullptr, &error),
            WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_conversation_get(conversation.get(), nullptr, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_conversation_set(conversation.get(), nullptr, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(messages(conversation).empty());
  // Within its own callback it cannot be changed.
  std::vector<weft_status> inner;
  conversation.ask("ab", 2, [&](uint32_t id, std::string_view) {
    if (id != WEFT_NO_TOKEN) {
      inner.push_back(failure([&] { conversation.ask("cd", 1); }).first);
      inner.push_back(failure([&] { conversation.undo(); }).first);
    }
    return true;
  });
  EXPECT_EQ(inner, std::vector<weft_status>(4, WEFT_INVALID_ARGUMENT));
  const Json before = messages(conversation);
  EXPECT_EQ(before.size(), 2u);
  // A free in its own callback does nothing.
  conversation.answer(2, [&](uint32_t, std::string_view) { return weft_conversation_free(conversation.get()), true; });
  EXPECT_EQ(messages(conversation), before);
  // An exception of a callback gets out.
  EXPECT_THROW(conversation.ask("ef", 2, [](uint32_t, std::string_view) -> bool { throw std::logic_error("x"); }),
               std::logic_error);
}

}  // namespace
}  // namespace weft
