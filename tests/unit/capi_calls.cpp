// Useless calls of the C API: a status or a harmless answer, and no crash.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/capi_test.h"
#include "weft/batch.h"
#include "weft/speculate.h"
#include "weft/text.h"
#include "weft/weft.h"

namespace weft {
namespace {

class CapiTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    weft_error error = {};
    ASSERT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &model_, &error), WEFT_OK) << error.sentence;
    ASSERT_EQ(weft_session_create(model_, nullptr, &session_, &error), WEFT_OK) << error.sentence;
  }
  void TearDown() override {
    weft_session_free(session_);
    weft_model_free(model_);
    CapiModelTest::TearDown();
  }

  weft_model* model_ = nullptr;
  weft_session* session_ = nullptr;
};

TEST_F(CapiTest, GettersOfNothing) {
  EXPECT_EQ(test::info_of(nullptr).layers, 0u);
  EXPECT_STREQ(test::info_of(nullptr).family, "");
  EXPECT_EQ(test::stats_of(nullptr).context_used, 0u);
  EXPECT_EQ(test::speculation_stats_of(nullptr).passes, 0u);
  weft_session_cancel(nullptr);
  weft_session_clear_cancel(nullptr);
  weft_session_reset(nullptr);
  weft_string_free(nullptr);
  weft_model_free(nullptr);
  weft_session_free(nullptr);
  weft_encoder_free(nullptr);
  weft_batch_free(nullptr);
}

TEST_F(CapiTest, ALengthThatIsNone) {
  weft_error error = {};
  size_t count = 0;
  EXPECT_EQ(weft_tokenize(model_, "x", SIZE_MAX, 0, 0, nullptr, 0, &count, &error), WEFT_INVALID_ARGUMENT)
      << error.sentence;
}

TEST_F(CapiTest, NumbersThatNoEnumerationHas) {
  const auto none = [](auto one) { return static_cast<decltype(one)>(248); };
  weft_session* session = nullptr;
  weft_session_options options = test::session_options(64, none(WEFT_TYPE_FILE), WEFT_POLICY_THROUGHPUT);
  EXPECT_EQ(weft_session_create(model_, &options, &session, nullptr), WEFT_INVALID_ARGUMENT);
  options = test::session_options(64, WEFT_TYPE_FILE, WEFT_POLICY_THROUGHPUT, none(WEFT_TYPE_FILE));
  EXPECT_EQ(weft_session_create(model_, &options, &session, nullptr), WEFT_INVALID_ARGUMENT);
  options = test::session_options(64, WEFT_TYPE_FILE, none(WEFT_POLICY_POLITE));
  EXPECT_EQ(weft_session_create(model_, &options, &session, nullptr), WEFT_INVALID_ARGUMENT);
  weft_request request = weft_request_default();
  request.grammar = "a";
  request.grammar_kind = none(WEFT_GRAMMAR_NONE);
  EXPECT_EQ(weft_session_set_request(session_, &request, nullptr), WEFT_INVALID_ARGUMENT);
  request = weft_request_default();
  request.speculation = none(WEFT_SPECULATE_OFF);
  EXPECT_EQ(weft_session_set_request(session_, &request, nullptr), WEFT_INVALID_ARGUMENT);
  options = weft_session_options_default();
  options.kv = WEFT_TYPE_NATIVE;  // of vocabulary tables only
  EXPECT_EQ(weft_session_create(model_, &options, &session, nullptr), WEFT_INVALID_ARGUMENT);
  for (int field = 0; field < 4; ++field) {
    weft_model_options wrong = weft_model_options_default();
    if (field == 3) wrong.type = WEFT_TYPE_NATIVE;
    if (field == 0) wrong.type = none(wrong.type);
    if (field == 1) wrong.vocab_type = none(wrong.type);
    if (field == 2) wrong.tie = none(wrong.tie);
    weft_model* model = nullptr;
    EXPECT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), &wrong, &model, nullptr), WEFT_INVALID_ARGUMENT) << field;
  }
  EXPECT_STREQ(weft_status_name(none(WEFT_OK)), "unknown weft_status");
}

TEST_F(CapiTest, AConversationMayNestSoFar) {
  const auto refusal = [&](size_t levels) {
    const std::string text =
        R"({"messages": [], "x": )" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
    size_t count = 0;
    weft_error error = {};
    EXPECT_NE(weft_apply_chat_template_json(model_, text.c_str(), nullptr, 0, &count, &error), WEFT_OK);
    return std::string(error.sentence);
  };
  EXPECT_EQ(refusal(100).find("nested"), std::string::npos);  // but the model has no template
  for (const size_t levels : {101, 1000000})
    EXPECT_NE(refusal(levels).find("nested more than 100 deep"), std::string::npos) << levels;
}

// Python's integers, and so Transformers', have any length.
TEST_F(CapiTest, LongNumbersOfCallsKeepTheirDigits) {
  const char* const chat_template =
      "{% for m in messages %}{% for c in m.tool_calls %}{% set a = c.function.arguments %}{{ a | tojson }}|{{ a.x "
      "}}|{{ a }}|"
      "{{ a.x is integer }}{{ a.x is number }}{{ a.x is float }}|{% if a.x is integer %}{{ a.x == a.x }}"
      "{{ a.x > 9223372036854775807 }}{{ a.x < 0 }}|{{ a.x | int }}{% endif %}{% endfor %}{% endfor %}";
  make_gguf(folder_ / "calls.gguf", LlamaShape(), {DType::q8_0, 5, chat_template});
  weft_model* model = nullptr;
  ASSERT_EQ(weft_model_load((folder_ / "calls.gguf").c_str(), nullptr, &model, nullptr), WEFT_OK);
  const auto render = [&](const std::string& arguments, bool as_text) {
    std::string quoted = arguments;
    for (size_t at = 0; as_text && (at = quoted.find('"', at)) != quoted.npos; at += 2) quoted.insert(at, "\\");
    const std::string call = as_text ? "\"" + quoted + "\"" : arguments,
                      conversation =
                          R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": )"
                          R"({"name": "f", "arguments": )" +
                          call + "}}]}]}";
    std::vector<uint32_t> ids(1024);
    size_t count = 0;
    weft_error error = {};
    EXPECT_EQ(weft_apply_chat_template_json(model, conversation.c_str(), ids.data(), ids.size(), &count, &error),
              WEFT_OK)
        << error.sentence;
    char* text = nullptr;
    EXPECT_EQ(weft_detokenize(model, ids.data(), count, &text, nullptr, &error), WEFT_OK);
    const std::string result = text;
    weft_string_free(text);
    return result;
  };
  const std::string more = "|TrueTrueFalse|TrueTrueFalse|", less = "|TrueTrueFalse|TrueFalseTrue|";
  for (const bool as_text : {false, true}) {
    for (const std::string digits : {"9223372036854775808", "18446744073709551615", "18446744073709551616",
                                     "12345678901234567891234", "1000000000000000000000000000000000000000000001"})
      EXPECT_EQ(render("{\"x\": " + digits + "}", as_text),
                "{\"x\": " + digits + "}|" + digits + "|{'x': " + digits + "}" + more + digits);
    for (const std::string digits : {"-9223372036854775809", "-12345678901234567891234"})
      EXPECT_EQ(render("{\"x\": " + digits + "}", as_text),
                "{\"x\": " + digits + "}|" + digits + "|{'x': " + digits + "}" + less + digits);
    EXPECT_TRUE(render("{\"x\": 1e22}", as_text).starts_with("{\"x\": 1e+22}|1e+22|"));
    EXPECT_TRUE(render("{\"x\": \"1\", \"y\": [{\"z\": 18446744073709551616}]}", as_text)
                    .starts_with("{\"x\": \"1\", \"y\": [{\"z\": 18446744073709551616}]}|1|"));
  }
  weft_model_free(model);
}

TEST_F(CapiTest, AModelThatIsFreedBeforeItsSessions) {
  weft_model_free(model_);
  model_ = nullptr;
  const std::vector<uint32_t> ids = {1, 2, 3};
  ASSERT_EQ(weft_session_prompt(session_, ids.data(), ids.size(), nullptr), WEFT_OK);
  weft_generate_options options = test::generate_options(3);
  EXPECT_EQ(weft_session_generate(session_, &options, nullptr, nullptr), WEFT_OK);
}

// Calls that a callback must not make on its own session are refused.
TEST_F(CapiTest, CallsFromACallback) {
  const std::vector<uint32_t> ids = {1, 2, 3};
  ASSERT_EQ(weft_session_prompt(session_, ids.data(), ids.size(), nullptr), WEFT_OK);
  struct Seen {
    weft_session* session;
    std::string path;
    std::vector<weft_status> refused;
    uint32_t calls = 0;
  } seen = {session_, (folder_ / "saved").string(), {}};
  const auto callback = [](void* user, uint32_t, const char*, size_t) {
    Seen& s = *static_cast<Seen*>(user);
    const uint32_t id = 1;
    float values[4];
    size_t count = 0;
    weft_generate_options inner = test::generate_options(2);
    weft_batch_entry entry = {s.session, &inner, WEFT_STOP_LENGTH};
    const weft_request request = weft_request_default();
    if (s.calls++ == 0) {
      s.refused = {weft_session_prompt(s.session, &id, 1, nullptr),
                   weft_session_generate(s.session, &inner, nullptr, nullptr),
                   weft_generate_batch(&entry, 1, nullptr),
                   weft_session_set_request(s.session, &request, nullptr),
                   weft_session_head_logits(s.session, nullptr, nullptr, 0, &count, nullptr),
                   weft_session_save(s.session, s.path.c_str(), nullptr, nullptr),
                   weft_session_restore(s.session, s.path.c_str(), nullptr, nullptr),
                   weft_session_score(s.session, &id, 1, values, nullptr)};
      weft_session_reset(s.session);
      weft_session_free(s.session);
    }
    size_t ids_now = 0;
    EXPECT_EQ(weft_session_get_ids(s.session, nullptr, 0, &ids_now, nullptr), WEFT_OK);
    EXPECT_EQ(ids_now, 3u + s.calls);
    return 0;
  };
  weft_generate_options options = test::generate_options(4, 1, callback, &seen);
  ASSERT_EQ(weft_session_generate(session_, &options, nullptr, nullptr), WEFT_OK);
  EXPECT_EQ(seen.calls, 4u);
  for (size_t i = 0; i < seen.refused.size(); ++i) EXPECT_EQ(seen.refused[i], WEFT_INVALID_ARGUMENT) << "call " << i;
  EXPECT_EQ(weft_session_generate(session_, &options, nullptr, nullptr), WEFT_OK);
}

// Sessions of a group are freed in any order; the memory of their caches goes with the last.
TEST_F(CapiTest, AGroupOfSessions) {
  weft_session* group[WEFT_MAX_BATCH + 1] = {};
  weft_error error = {};
  const weft_session_options too_long = test::session_options(1u << 30);
  EXPECT_EQ(weft_session_create_group(nullptr, nullptr, group, 2, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_create_group(model_, nullptr, nullptr, 2, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_create_group(model_, &too_long, group, 2, &error), WEFT_INVALID_ARGUMENT);
  for (const size_t count : {size_t{0}, size_t{WEFT_MAX_BATCH + 1}, SIZE_MAX}) {
    EXPECT_EQ(weft_session_create_group(model_, nullptr, group, count, &error), WEFT_INVALID_ARGUMENT);
    EXPECT_STREQ(error.place, "count");
  }
  for (const weft_session* none : group) EXPECT_EQ(none, nullptr);

  const auto used = [&] { return test::info_of(model_).device_bytes; };
  const uint64_t before = used();
  weft_session* single = nullptr;
  ASSERT_EQ(weft_session_create(model_, nullptr, &single, &error), WEFT_OK) << error.sentence;
  const uint64_t of_one = used() - before, of_cache = test::stats_of(single).kv_bytes;
  weft_session_free(single);
  ASSERT_EQ(weft_session_create_group(model_, nullptr, group, 3, &error), WEFT_OK) << error.sentence;
  EXPECT_EQ(test::stats_of(group[1]).kv_bytes, of_cache);
  EXPECT_EQ(used() - before, 3 * of_one);
  weft_session_free(group[0]);
  weft_session_free(group[2]);
  EXPECT_EQ(used() - before, of_one + 2 * of_cache);
  const std::vector<uint32_t> ids = {1, 2, 3};
  const weft_generate_options options = test::generate_options(4);
  EXPECT_EQ(weft_session_prompt(group[1], ids.data(), ids.size(), nullptr), WEFT_OK);
  EXPECT_EQ(weft_session_generate(group[1], &options, nullptr, nullptr), WEFT_OK);
  weft_session_free(group[1]);
  EXPECT_EQ(used(), before);
}

// A session of a batch is in use until it has ended, and the batch while it computes.
TEST_F(CapiTest, CallsIntoABatchAndItsSessions) {
  const std::vector<uint32_t> ids = {1, 2, 3};
  ASSERT_EQ(weft_session_prompt(session_, ids.data(), ids.size(), nullptr), WEFT_OK);
  weft_batch* batch = nullptr;
  ASSERT_EQ(weft_batch_create(model_, &batch, nullptr), WEFT_OK);
  weft_model_free(model_);  // the batch and the session keep it
  model_ = nullptr;
  std::vector<weft_batch_end> ended(WEFT_MAX_BATCH);
  struct Seen {
    weft_batch* batch;
    weft_session* session;
    std::vector<weft_batch_end>* ended;
    uint32_t calls = 0;
  } seen = {batch, session_, &ended};
  const auto callback = [](void* user, uint32_t, const char*, size_t) {
    Seen& s = *static_cast<Seen*>(user);
    const weft_generate_options inner = test::generate_options(2);
    size_t count = 0;
    ++s.calls;
    EXPECT_EQ(weft_batch_step(s.batch, s.ended->data(), &count, nullptr), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(weft_batch_add(s.batch, s.session, &inner, nullptr), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(weft_batch_set_token_share(s.batch, 0.5, nullptr), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(weft_session_computed_tokens(s.session), 2 + s.calls);
    weft_batch_free(s.batch);
    return 0;
  };
  EXPECT_EQ(weft_batch_set_token_share(batch, 0.5, nullptr), WEFT_OK);
  EXPECT_EQ(weft_batch_set_token_share(batch, 1, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_batch_set_token_share(nullptr, 0.5, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_computed_tokens(nullptr), 0u);
  weft_generate_options options = test::generate_options(4, 1, callback, &seen);
  ASSERT_EQ(weft_batch_add(batch, session_, &options, nullptr), WEFT_OK);
  EXPECT_EQ(weft_batch_add(batch, session_, &options, nullptr), WEFT_INVALID_ARGUMENT);
  size_t count = 0;
  for (int steps = 0; count == 0; ++steps) {
    ASSERT_LT(steps, 20);
    EXPECT_EQ(weft_session_prompt(session_, ids.data(), ids.size(), nullptr), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(weft_session_copy_prefix(session_, session_, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
    weft_session_reset(session_);
    weft_session_free(session_);
    ASSERT_EQ(weft_batch_step(batch, ended.data(), &count, nullptr), WEFT_OK);
  }
  EXPECT_EQ(ended[0].session, session_);
  EXPECT_EQ(ended[0].stop, WEFT_STOP_LENGTH);
  EXPECT_EQ(seen.calls, 4u);
  EXPECT_EQ(weft_session_prompt(session_, ids.data(), ids.size(), nullptr), WEFT_OK);
  // Freeing a batch releases the sessions that are still in it.
  ASSERT_EQ(weft_batch_add(batch, session_, &options, nullptr), WEFT_OK);
  weft_batch_free(batch);
  EXPECT_EQ(weft_session_prompt(session_, ids.data(), ids.size(), nullptr), WEFT_OK);
}

// After the last text that a grammar allows there are no logits, and the error names the grammar.
TEST_F(CapiTest, HeadLogitsAfterAGrammarsEnd) {
  weft_request request = weft_request_default();
  request.grammar_kind = WEFT_GRAMMAR_REGEX;
  request.grammar = "a";
  ASSERT_EQ(weft_session_set_request(session_, &request, nullptr), WEFT_OK);
  const std::vector<uint32_t> ids = {1, 2, 3};
  ASSERT_EQ(weft_session_prompt(session_, ids.data(), ids.size(), nullptr), WEFT_OK);
  weft_generate_options options = test::generate_options(20, 0, nullptr, nullptr);
  weft_stop stop = WEFT_STOP_LENGTH;
  ASSERT_EQ(weft_session_generate(session_, &options, &stop, nullptr), WEFT_OK);
  ASSERT_TRUE(stop == WEFT_STOP_GRAMMAR || stop == WEFT_STOP_TOKEN) << stop;
  weft_error error = {};
  size_t count = 0;
  EXPECT_EQ(weft_session_head_logits(session_, nullptr, nullptr, 0, &count, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(error.place, "grammar");
}

}  // namespace
}  // namespace weft
