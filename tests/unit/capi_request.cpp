// Requests of sessions.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "support/capi_test.h"
#include "weft/batch.h"
#include "weft/conversation.h"
#include "weft/speculate.h"
#include "weft/weft.h"

namespace weft {
namespace {

using Ids = std::vector<uint32_t>;
const Ids kPrompt = {5, 9, 2, 7, 7, 3, 1, 8, 5, 9, 2};

struct Answer {
  Ids ids;
  std::string text;
  weft_stop stop = WEFT_STOP_LENGTH;
  bool operator==(const Answer&) const = default;
};
void PrintTo(const Answer& answer, std::ostream* out) {
  *out << testing::PrintToString(answer.ids) << " \"" << answer.text << "\", stop " << answer.stop;
}

class RequestTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &model_, nullptr), WEFT_OK);
    session_ = make_session();
    greedy_.temperature = 0;
    drawn_.seed = 11;
    heads_ = (folder_ / "heads.gguf").string();
    make_medusa(heads_, LlamaShape().width, 3);
    const Ids kept = {1, 4, 5, 6, 7, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
    list_ = (folder_ / "kept").string();
    head_ = "keep:" + list_;
    ASSERT_EQ(weft_vocab_save(model_, kept.data(), kept.size(), list_.c_str(), nullptr), WEFT_OK);
  }
  void TearDown() override {
    weft_session_free(session_);
    weft_model_free(model_);
    CapiModelTest::TearDown();
  }
  weft_session* make_session() const {
    weft_session* session = nullptr;
    EXPECT_EQ(weft_session_create(model_, nullptr, &session, nullptr), WEFT_OK);
    return session;
  }
  weft_status set(const weft_request& request) { return weft_session_set_request(session_, &request, &error_); }

  static int add(void* user, uint32_t id, const char* text, size_t length) {
    auto* const answer = static_cast<Answer*>(user);
    if (id != WEFT_NO_TOKEN) answer->ids.push_back(id);
    answer->text.append(text, length);
    return 0;
  }
  Answer go_on(weft_session* session, uint32_t tokens, const weft_request* request = nullptr) {
    Answer answer;
    weft_generate_options options = test::generate_options(tokens, 1, add, &answer);
    options.request = request;
    EXPECT_EQ(weft_session_generate(session, &options, &answer.stop, &error_), WEFT_OK)
        << error_.place << ": " << error_.sentence;
    return answer;
  }
  Answer answer(weft_session* session, uint32_t tokens = 12, const weft_request* request = nullptr) {
    weft_session_reset(session);
    EXPECT_EQ(weft_session_prompt(session, kPrompt.data(), kPrompt.size(), nullptr), WEFT_OK);
    return go_on(session, tokens, request);
  }
  // The answer of a new session to this request.
  Answer alone(const weft_request& request, uint32_t tokens = 12) {
    weft_session* const session = make_session();
    const Answer result = answer(session, tokens, &request);
    weft_session_free(session);
    return result;
  }
  weft_request with_sampling(const weft_sampling& sampling) const {
    weft_request request = weft_request_default();
    request.sampling = &sampling;
    return request;
  }
  // Greedy, with something of all that changes a text.
  weft_request full() {
    weft_request request = with_sampling(greedy_);
    request.head = head_.c_str();
    request.speculation = WEFT_SPECULATE_MEDUSA;
    request.medusa = heads_.c_str();
    request.bias_ids = biased_;
    request.biases = biases_;
    request.bias_count = 1;
    request.logprobs = 2;
    request.stops = stops_;
    request.stop_count = 1;
    return request;
  }

  weft_model* model_ = nullptr;
  weft_session* session_ = nullptr;
  weft_sampling greedy_ = weft_sampling_default(), drawn_ = weft_sampling_default();
  std::string heads_, list_, head_;
  const uint32_t biased_[1] = {6};
  const float biases_[1] = {3};
  const char* stops_[1] = {"zzzzzzzz"};
  weft_error error_ = {};
};

// Nothing of a request stays after the next one.
TEST_F(RequestTest, IsComplete) {
  const weft_request plain = weft_request_default();
  const Answer want = alone(plain), special = alone(full());
  EXPECT_NE(special, want);
  ASSERT_EQ(set(full()), WEFT_OK) << error_.sentence;
  EXPECT_EQ(answer(session_), special);
  float chosen = 0;
  size_t count = 0;
  uint32_t likeliest[2];
  float values[2];
  ASSERT_EQ(weft_session_get_logprobs(session_, &chosen, likeliest, values, 2, &count, nullptr), WEFT_OK);
  EXPECT_EQ(count, 2u);
  ASSERT_EQ(set(plain), WEFT_OK) << error_.sentence;
  EXPECT_EQ(answer(session_), want);
  EXPECT_EQ(test::speculation_stats_of(session_).passes, 0u);
  ASSERT_EQ(weft_session_get_logprobs(session_, &chosen, likeliest, values, 2, &count, nullptr), WEFT_OK);
  EXPECT_EQ(count, 0u);
}

// Generating with a request sets it, and without one it stays.
TEST_F(RequestTest, StaysUntilTheNextOne) {
  const weft_request one = with_sampling(drawn_), other = full();
  const Answer first = alone(one), second = alone(other);
  EXPECT_EQ(answer(session_, 12, &one), first);
  EXPECT_EQ(answer(session_), first);
  EXPECT_EQ(answer(session_, 12, &other), second);
  EXPECT_EQ(answer(session_), second);
  ASSERT_EQ(set(one), WEFT_OK);
  EXPECT_EQ(answer(session_), first);
}

// The files that a request names are read once for all requests that name them in turn.
TEST_F(RequestTest, ReadsNoFileAgain) {
  ASSERT_EQ(set(full()), WEFT_OK) << error_.sentence;
  const Answer want = answer(session_);
  std::filesystem::remove(list_);
  std::filesystem::remove(heads_);
  ASSERT_EQ(set(full()), WEFT_OK) << error_.sentence;
  EXPECT_EQ(answer(session_, 12), want);
  weft_request request = full();
  request.logprobs = 0;  // the rest is the same
  ASSERT_EQ(set(request), WEFT_OK) << error_.sentence;
  request.head = nullptr;
  ASSERT_EQ(set(request), WEFT_OK) << error_.sentence;
  request.head = head_.c_str();
  EXPECT_NE(set(request), WEFT_OK);
  request.head = nullptr;
  request.speculation = WEFT_SPECULATE_OFF;
  ASSERT_EQ(set(request), WEFT_OK) << error_.sentence;
  request.speculation = WEFT_SPECULATE_MEDUSA;
  EXPECT_EQ(set(request), WEFT_NOT_FOUND);
}

// A draft model may be freed as long as each request names it.
TEST_F(RequestTest, NamesADraftThatWasFreed) {
  weft_model* draft = nullptr;
  ASSERT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &draft, nullptr), WEFT_OK);
  weft_request request = with_sampling(greedy_);
  const Answer want = alone(request, 30);
  request.speculation = WEFT_SPECULATE_DRAFT;
  request.draft = draft;
  EXPECT_EQ(answer(session_, 30, &request), want);
  weft_model_free(draft);
  EXPECT_EQ(answer(session_, 30, &request), want);
}

// The same grammar goes on in its text; another one, or none in between, begins at its start.
TEST_F(RequestTest, TheSameGrammarGoesOn) {
  weft_request request = with_sampling(greedy_);
  request.grammar_kind = WEFT_GRAMMAR_REGEX;
  request.grammar = "[a-p]{20}";
  request.grammar_place = "first";
  std::string text = answer(session_, 2, &request).text;
  request.grammar_place = "second";  // it is for errors only
  const Answer rest = go_on(session_, 0, &request);
  EXPECT_EQ((text + rest.text).size(), 20u);
  EXPECT_NE(rest.stop, WEFT_STOP_CONTEXT);

  answer(session_, 2, &request);
  const weft_request none = with_sampling(greedy_);
  ASSERT_EQ(set(none), WEFT_OK);
  EXPECT_EQ(go_on(session_, 0, &request).text.size(), 20u);
  answer(session_, 2, &request);
  request.grammar = "[a-p]{21}";
  EXPECT_EQ(go_on(session_, 0, &request).text.size(), 21u);
}

// All of a request or nothing, whatever is wrong with it; the error names the field.
TEST_F(RequestTest, AWrongOneChangesNothing) {
  const weft_request before = with_sampling(drawn_);
  const Answer want = answer(session_, 12, &before);
  const uint32_t no_id[] = {100000};
  const float much[] = {101};
  const char* const empty[] = {""};
  const char* const null[] = {nullptr};
  weft_sampling wrong = weft_sampling_default();
  wrong.top_p = 2;
  struct Case {
    const char* place;
    weft_status status;
    std::function<void(weft_request& request)> spoil;
  };
  const Case cases[] = {
      {"top_p", WEFT_INVALID_ARGUMENT, [&](weft_request& r) { r.sampling = &wrong; }},
      {"head", WEFT_INVALID_ARGUMENT, [](weft_request& r) { r.head = "half"; }},
      {"grammar", WEFT_INVALID_ARGUMENT, [](weft_request& r) { r.grammar_kind = WEFT_GRAMMAR_GBNF; }},
      {"grammar:1:11", WEFT_BAD_FILE,
       [](weft_request& r) { r.grammar_kind = WEFT_GRAMMAR_GBNF, r.grammar = "root ::= ("; }},
      {"mine:1:11", WEFT_BAD_FILE,
       [](weft_request& r) { r.grammar_kind = WEFT_GRAMMAR_GBNF, r.grammar = "root ::= (", r.grammar_place = "mine"; }},
      {"speculation", WEFT_INVALID_ARGUMENT,
       [](weft_request& r) { r.speculation = static_cast<weft_speculation>(99); }},
      {"draft", WEFT_INVALID_ARGUMENT, [](weft_request& r) { r.speculation = WEFT_SPECULATE_DRAFT; }},
      {"medusa", WEFT_INVALID_ARGUMENT, [](weft_request& r) { r.medusa = nullptr; }},
      {"assistant", WEFT_INVALID_ARGUMENT, [](weft_request& r) { r.speculation = WEFT_SPECULATE_ASSISTANT; }},
      {"stop", WEFT_INVALID_ARGUMENT, [&](weft_request& r) { r.stops = empty; }},
      {"stops", WEFT_INVALID_ARGUMENT, [&](weft_request& r) { r.stops = null; }},
      {"stops", WEFT_INVALID_ARGUMENT, [](weft_request& r) { r.stops = nullptr; }},
      {"logprobs", WEFT_INVALID_ARGUMENT, [](weft_request& r) { r.logprobs = WEFT_MAX_LOGPROBS + 1; }},
      {"logit_bias", WEFT_INVALID_ARGUMENT, [&](weft_request& r) { r.bias_ids = no_id; }},
      {"logit_bias", WEFT_INVALID_ARGUMENT, [&](weft_request& r) { r.biases = much; }},
      {"bias_ids or biases", WEFT_INVALID_ARGUMENT, [](weft_request& r) { r.biases = nullptr; }},
  };
  for (const Case& one : cases) {
    weft_request request = full();
    one.spoil(request);
    EXPECT_EQ(set(request), one.status) << one.place;
    EXPECT_STREQ(error_.place, one.place) << error_.sentence;
    weft_generate_options options = test::generate_options(12);
    options.request = &request;
    const size_t used = test::stats_of(session_).context_used;
    EXPECT_EQ(weft_session_generate(session_, &options, nullptr, &error_), one.status) << one.place;
    EXPECT_EQ(test::stats_of(session_).context_used, used) << one.place;
    EXPECT_EQ(answer(session_), want) << one.place;
  }
  weft_request request = full();
  request.medusa = "/nonexistent";
  EXPECT_EQ(set(request), WEFT_NOT_FOUND);
  request.speculation = WEFT_SPECULATE_ASSISTANT;
  request.assistant = "/nonexistent";
  EXPECT_EQ(set(request), WEFT_NOT_FOUND);
  EXPECT_EQ(answer(session_), want);
  EXPECT_EQ(weft_session_set_request(session_, nullptr, &error_), WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.place, "request");
  EXPECT_EQ(weft_session_set_request(nullptr, &request, &error_), WEFT_INVALID_ARGUMENT);
}

// A file has sampling and biases, which hold until a request has others.
TEST_F(RequestTest, RestoredSampling) {
  weft_request saved = with_sampling(drawn_);
  saved.bias_ids = biased_;
  saved.biases = biases_;
  saved.bias_count = 1;
  const std::string path = (folder_ / "saved").string();
  answer(session_, 4, &saved);
  ASSERT_EQ(weft_session_save(session_, path.c_str(), nullptr, &error_), WEFT_OK) << error_.sentence;
  const Answer want = go_on(session_, 8);

  const auto restored = [&](const weft_request* request) {
    weft_session* const session = make_session();
    const weft_request own = full();
    EXPECT_EQ(weft_session_set_request(session, &own, nullptr), WEFT_OK);
    EXPECT_EQ(weft_session_restore(session, path.c_str(), nullptr, &error_), WEFT_OK) << error_.sentence;
    const Answer result = go_on(session, 8, request);
    weft_session_free(session);
    return result;
  };
  weft_request keeps = weft_request_default();
  keeps.keep_sampling = keeps.keep_biases = 1;
  EXPECT_EQ(restored(&keeps), want);
  keeps.sampling = &greedy_;  // not used, and neither are the biases
  keeps.bias_count = 1;
  keeps.bias_ids = biased_;
  keeps.biases = biases_;
  EXPECT_EQ(restored(&keeps), want);
  EXPECT_EQ(restored(&saved), want);
  EXPECT_NE(restored(nullptr), want);  // by the keep-list of full()
  weft_request without = keeps;
  without.keep_sampling = 0;
  EXPECT_NE(restored(&without), want);
}

TEST_F(RequestTest, InConversations) {
  const weft_request request = full();
  const auto asked = [&](weft_session* session, const weft_request* by, Answer* got) {
    weft_conversation* conversation = nullptr;
    EXPECT_EQ(weft_conversation_create(session, nullptr, &conversation, &error_), WEFT_OK) << error_.sentence;
    weft_generate_options options = test::generate_options(12, 1, add, got);
    options.request = by;
    const weft_status status = weft_conversation_ask(conversation, "a b c", nullptr, 0, &options, nullptr, &error_);
    char* said = nullptr;
    EXPECT_EQ(weft_conversation_get(conversation, &said, nullptr), WEFT_OK);
    EXPECT_EQ(std::string(said).find("a b c") == std::string::npos, status != WEFT_OK) << said;
    weft_string_free(said);
    weft_conversation_free(conversation);
    weft_session_reset(session);
    return status;
  };
  weft_session* const other = make_session();
  ASSERT_EQ(weft_session_set_request(other, &request, nullptr), WEFT_OK);
  Answer want, got, kept;
  ASSERT_EQ(asked(other, nullptr, &want), WEFT_OK) << error_.sentence;
  weft_session_free(other);
  weft_request wrong = request;
  wrong.logprobs = 100;
  EXPECT_EQ(asked(session_, &wrong, &got), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(got, Answer());
  ASSERT_EQ(asked(session_, &request, &got), WEFT_OK) << error_.sentence;
  EXPECT_EQ(got, want);
  ASSERT_EQ(asked(session_, nullptr, &kept), WEFT_OK) << error_.sentence;
  EXPECT_EQ(kept, want);
}

TEST_F(RequestTest, InBatches) {
  const weft_request one = with_sampling(drawn_), other = full();
  const Answer want[] = {alone(one), alone(other)};
  weft_session* const sessions[] = {session_, make_session()};
  for (const bool joining : {false, true}) {
    Answer got[2];
    weft_generate_options options[2];
    for (int i = 0; i < 2; ++i) {
      weft_session_reset(sessions[i]);
      ASSERT_EQ(weft_session_prompt(sessions[i], kPrompt.data(), kPrompt.size(), nullptr), WEFT_OK);
      options[i] = test::generate_options(12, 1, add, &got[i]);
      options[i].request = i == 0 ? &one : &other;
    }
    if (joining) {
      weft_batch* batch = nullptr;
      ASSERT_EQ(weft_batch_create(model_, &batch, nullptr), WEFT_OK);
      for (int i = 0; i < 2; ++i) ASSERT_EQ(weft_batch_add(batch, sessions[i], &options[i], &error_), WEFT_OK);
      weft_batch_end ended[WEFT_MAX_BATCH];
      for (size_t left = 2, count = 0; left > 0; left -= count)
        ASSERT_EQ(weft_batch_step(batch, ended, &count, &error_), WEFT_OK) << error_.sentence;
      weft_batch_free(batch);
    } else {
      weft_batch_entry entries[] = {{sessions[0], &options[0], {}}, {sessions[1], &options[1], {}}};
      ASSERT_EQ(weft_generate_batch(entries, 2, &error_), WEFT_OK) << error_.sentence;
    }
    for (int i = 0; i < 2; ++i) EXPECT_EQ(got[i].ids, want[i].ids) << i << ", joining " << joining;
  }
  for (int i = 0; i < 2; ++i) EXPECT_EQ(answer(sessions[i]), want[i]);  // they have kept them
  weft_session_free(sessions[1]);
}

}  // namespace
}  // namespace weft
