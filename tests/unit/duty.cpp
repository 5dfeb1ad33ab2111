// Share of the time that the device is busy with a session, measured at the Vulkan loader.
#include "weft/duty.h"
#include "support/capi_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/losable_vulkan.h"
#include "support/model_maker.h"
#include "support/source_folder.h"
#include "weft/audio.h"
#include "weft/image.hpp"
#include "weft/rerank.hpp"
#include "weft/soft.h"
#include "weft/speculate.h"

namespace weft {
namespace {

using Ids = std::vector<uint32_t>;
using Clock = std::chrono::steady_clock;

class DutyTest : public testing::Test {
 protected:
  // Loaded once: each device compiles everything.
  static void SetUpTestSuite() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("WEFT_CACHE_DIR", folder_.c_str(), 1);
    LlamaShape shape;
    shape.layers = 5;
    make_gguf(folder_ / "m.gguf", shape, {DType::q8_0, 5, ""});
    const weft_status status = weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &model_, &error_);
    ASSERT_TRUE(model_ || status == WEFT_NO_DEVICE) << error_.sentence;
  }
  static void TearDownTestSuite() {
    weft_model_free(model_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  void SetUp() override {
    if (!model_) GTEST_SKIP() << "there is no device";
  }
  void TearDown() override {
    for (weft_session* session : sessions_) weft_session_free(session);
  }

  weft_session* make_session(weft_policy policy = WEFT_POLICY_POLITE) {
    weft_session_options options = weft_session_options_default();
    options.policy = policy;
    weft_session* session = nullptr;
    EXPECT_EQ(weft_session_create(model_, &options, &session, &error_), WEFT_OK) << error_.sentence;
    EXPECT_EQ(test::set_greedy(session, &error_), WEFT_OK) << error_.sentence;
    sessions_.push_back(session);
    return session;
  }

  void prompt(weft_session* session) {
    Ids ids(40);
    for (uint32_t i = 0; i < ids.size(); ++i) ids[i] = 1 + i * 7 % 50;
    weft_session_reset(session);
    EXPECT_EQ(weft_session_prompt(session, ids.data(), ids.size(), &error_), WEFT_OK) << error_.sentence;
  }

  Ids answer(weft_session* session, uint32_t count) {
    prompt(session);
    const weft_generate_options options = test::generate_options(count);
    EXPECT_EQ(weft_session_generate(session, &options, nullptr, &error_), WEFT_OK) << error_.sentence;
    return ids_of(session);
  }

  static Ids ids_of(weft_session* session) {
    Ids ids(test::stats_of(session).context_used);
    size_t count = 0;
    weft_session_get_ids(session, ids.data(), ids.size(), &count, nullptr);
    return ids;
  }

  weft_status set(weft_session* session, float share) { return weft_session_set_duty(session, share, &error_); }

  // Seconds of `all` that the device may be busy. Up to 5 ms of idle time are made up for, and nothing waits after the
  // last submission, which at worst is the longest.
  static double most_busy(double share, double all) {
    return share * (all + 0.005) + (1 - share) * longest_busy_seconds();
  }

  // Checks the device's share of time while `work` runs. The upper bound holds whatever else the machine does; only the
  // lower bound may need another try.
  template <class Work>
  void expect_share(float share, const Work& work) {
    double used = 0;
    for (int attempt = 0; attempt < 5; ++attempt) {
      lose_device_at(0);
      const Clock::time_point begin = Clock::now();
      work();
      const double all = std::chrono::duration<double>(Clock::now() - begin).count(), busy = busy_seconds();
      std::printf("  busy for %.1f ms of %.1f ms, in %zu submissions\n", busy * 1e3, all * 1e3, submissions());
      EXPECT_EQ(most_under_way(), 1u);
      EXPECT_LE(busy, most_busy(share, all));
      used = std::max(used, busy / all);
      if (used > share * 0.7) return;
    }
    ADD_FAILURE() << "the device was busy for " << used << " of the time, it may be for " << share;
  }

  // The same for a batch, from the last session's first token on: each prompt keeps to its own session's share.
  void expect_share_of_batch(double share, std::span<weft_session* const> sessions, uint32_t tokens) {
    struct Told {
      size_t prompts, tokens = 0;
      Clock::time_point begin = {};
      static int add(void* user, uint32_t, const char*, size_t) {
        Told& self = *static_cast<Told*>(user);
        if (++self.tokens != self.prompts) return 0;
        lose_device_at(0);
        self.begin = Clock::now();
        return 0;
      }
    } told = {sessions.size()};
    const weft_generate_options options = test::generate_options(tokens, 1, Told::add, &told);
    std::vector<weft_batch_entry> entries;
    std::vector<Ids> want;
    for (weft_session* const session : sessions) {
      weft_session* const alone = make_session();
      want.push_back(answer(alone, tokens));
      prompt(session);
      entries.push_back({session, &options, WEFT_STOP_LENGTH});
    }
    ASSERT_EQ(weft_generate_batch(entries.data(), entries.size(), &error_), WEFT_OK) << error_.sentence;
    const double all = std::chrono::duration<double>(Clock::now() - told.begin).count(), busy = busy_seconds();
    std::printf("  busy for %.1f ms of %.1f ms, in %zu submissions\n", busy * 1e3, all * 1e3, submissions());
    EXPECT_EQ(told.tokens, sessions.size() * tokens);
    EXPECT_EQ(most_under_way(), 1u);
    EXPECT_LE(busy, most_busy(share, all));
    for (size_t i = 0; i < sessions.size(); ++i) EXPECT_EQ(ids_of(sessions[i]), want[i]);
  }

  static inline std::filesystem::path folder_;
  static inline weft_model* model_ = nullptr;
  static inline weft_error error_ = {};
  std::vector<weft_session*> sessions_;
};

TEST_F(DutyTest, ASessionKeepsToItsShare) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 40);
  lose_device_at(0);
  EXPECT_EQ(answer(session, 40), want);
  const size_t all = submissions();
  EXPECT_EQ(most_under_way(), 2u);
  for (const float share : {0.5f, 0.2f}) {
    ASSERT_EQ(set(session, share), WEFT_OK) << error_.sentence;
    expect_share(share, [&] { EXPECT_EQ(answer(session, 40), want); });
    EXPECT_EQ(submissions(), all);
  }
  ASSERT_EQ(set(session, 1), WEFT_OK);
  lose_device_at(0);
  EXPECT_EQ(answer(session, 40), want);
  EXPECT_EQ(most_under_way(), 2u);
}

TEST_F(DutyTest, ABatchKeepsToTheSmallestShare) {
  weft_session* const sessions[] = {make_session(), make_session(WEFT_POLICY_THROUGHPUT), make_session()};
  ASSERT_EQ(set(sessions[0], 0.6f), WEFT_OK);
  ASSERT_EQ(set(sessions[2], 0.25f), WEFT_OK);
  expect_share_of_batch(0.25, sessions, 30);
  EXPECT_GE(submissions(), 29u);
}

// A pass that checks guesses of all sessions counts like any other.
TEST_F(DutyTest, ABatchThatGuessesKeepsToTheSmallestShare) {
  weft_session* const sessions[] = {make_session(), make_session(), make_session()};
  for (weft_session* const session : sessions)
    ASSERT_EQ(test::speculate(session, WEFT_SPECULATE_LOOKUP, nullptr, &error_), WEFT_OK) << error_.sentence;
  ASSERT_EQ(set(sessions[1], 0.25f), WEFT_OK);
  expect_share_of_batch(0.25, sessions, 60);
  for (const weft_session* const session : sessions) EXPECT_GT(test::speculation_stats_of(session).accepted_tokens, 0u);
}

TEST_F(DutyTest, ADraftsWorkCounts) {
  weft_model* draft = nullptr;
  ASSERT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &draft, &error_), WEFT_OK) << error_.sentence;
  weft_session* const session = make_session();
  const Ids want = answer(session, 40);
  lose_device_at(0);
  EXPECT_EQ(answer(session, 40), want);
  const size_t alone = submissions();
  ASSERT_EQ(test::speculate(session, WEFT_SPECULATE_DRAFT, draft, &error_), WEFT_OK) << error_.sentence;
  weft_model_free(draft);
  ASSERT_EQ(set(session, 0.25f), WEFT_OK);
  lose_device_at(0);
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(answer(session, 40), want);  // it tries what guesses cost
  const double all = std::chrono::duration<double>(Clock::now() - begin).count(), busy = busy_seconds();
  EXPECT_GT(submissions(), alone + 10);
  EXPECT_EQ(most_under_way(), 1u);
  EXPECT_LE(busy, most_busy(0.25, all));
}

struct Pauses {
  weft_session* session;
  std::vector<double> seconds = {};
  static int add(void* user, double seconds) {
    static_cast<Pauses*>(user)->seconds.push_back(seconds);
    return 0;
  }
};

TEST_F(DutyTest, PausesAreTold) {
  weft_session* const session = make_session();
  Pauses pauses = {session};
  const Ids want = answer(session, 20);
  ASSERT_EQ(weft_session_set_pause_callback(session, Pauses::add, &pauses, &error_), WEFT_OK);
  EXPECT_EQ(answer(session, 20), want);
  EXPECT_TRUE(pauses.seconds.empty());
  ASSERT_EQ(set(session, 0.1f), WEFT_OK);
  lose_device_at(0);
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(answer(session, 20), want);
  const double all = std::chrono::duration<double>(Clock::now() - begin).count();
  double sum = 0;
  for (const double seconds : pauses.seconds) {
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, 0.01);
    sum += seconds;
  }
  EXPECT_GE(pauses.seconds.size(), 5u);
  EXPECT_LE(sum, all - busy_seconds());
  EXPECT_GE(sum, busy_seconds() * 2);  // some nine times of it, and what was late is made up for
  ASSERT_EQ(weft_session_set_pause_callback(session, nullptr, nullptr, &error_), WEFT_OK);
  pauses.seconds.clear();
  answer(session, 2);
  EXPECT_TRUE(pauses.seconds.empty());
}

// The callback of a session without a share lets it go on, as another thread would.
TEST_F(DutyTest, ShareZeroHaltsUntilItIsSetAgain) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 10);
  ASSERT_EQ(set(session, 0), WEFT_OK);
  lose_device_at(0);
  Ids got;
  std::thread thread([&] { got = answer(session, 10); });
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_EQ(submissions(), 0u);
  EXPECT_EQ(set(session, 1), WEFT_OK);
  thread.join();
  EXPECT_EQ(got, want);

  Pauses pauses = {session};
  const auto resume = [](void* user, double) -> int {
    Pauses& self = *static_cast<Pauses*>(user);
    self.seconds.push_back(static_cast<double>(submissions()));
    if (self.seconds.size() % 3 == 0) weft_session_set_duty(self.session, 1, nullptr);
    return 0;
  };
  ASSERT_EQ(weft_session_set_pause_callback(session, resume, &pauses, &error_), WEFT_OK);
  const auto halt = [](void* user, uint32_t, const char*, size_t) -> int {
    return weft_session_set_duty(static_cast<weft_session*>(user), 0, nullptr);
  };
  const weft_generate_options options = test::generate_options(10, 1, halt, session);
  prompt(session);
  ASSERT_EQ(weft_session_generate(session, &options, nullptr, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids_of(session), want);
  ASSERT_EQ(pauses.seconds.size(), 9 * 3u);  // three before each token but the first
  for (size_t i = 0; i < pauses.seconds.size(); ++i) EXPECT_EQ(pauses.seconds[i], pauses.seconds[i / 3 * 3]) << i;
}

TEST_F(DutyTest, CancelEndsAPause) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 10);
  for (const float share : {0.f, 1e-6f}) {
    ASSERT_EQ(set(session, share), WEFT_OK);
    prompt(session);
    weft_stop stop = WEFT_STOP_LENGTH;
    std::thread thread([&] {
      const weft_generate_options options = test::generate_options(10);
      EXPECT_EQ(weft_session_generate(session, &options, &stop, nullptr), WEFT_OK);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const Clock::time_point begin = Clock::now();
    weft_session_cancel(session);
    thread.join();
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));
    EXPECT_EQ(stop, WEFT_STOP_CALLER);
    EXPECT_LE(ids_of(session).size(), 41u);
  }
  // The callback's way to cancel.
  const auto stop = [](void*, double) -> int { return 1; };
  ASSERT_EQ(weft_session_set_pause_callback(session, stop, nullptr, &error_), WEFT_OK);
  EXPECT_LE(answer(session, 10).size(), 41u);
  ASSERT_EQ(set(session, 1), WEFT_OK);
  EXPECT_EQ(answer(session, 10), want);
}

// A duty that sessions and a listener have together. The listener's model is another one.
class CommonDutyTest : public DutyTest {
 protected:
  void SetUp() override {
    DutyTest::SetUp();
    if (!model_) return;
    const std::string folder = (source_folder() / "tests/model/golden_whisper/speech").string();
    ASSERT_EQ(weft_model_load(folder.c_str(), nullptr, &whisper_, &error_), WEFT_OK) << error_.sentence;
    ASSERT_EQ(weft_listener_create(whisper_, &listener_, &error_), WEFT_OK) << error_.sentence;
    ASSERT_EQ(weft_duty_create(&duty_, &error_), WEFT_OK) << error_.sentence;
    for (size_t i = 0; i < samples_.size(); ++i)
      samples_[i] = static_cast<float>(0.3 * std::sin(static_cast<double>(i * i) * 1e-6));
  }
  void TearDown() override {
    DutyTest::TearDown();
    weft_duty_free(duty_);
    weft_listener_free(listener_);
    weft_model_free(whisper_);
  }

  // Text of a window.
  std::string hear(weft_status wanted = WEFT_OK) {
    std::string text;
    const float greedy = 0;
    weft_listen_options options = weft_listen_options_default();
    options.language = "de";
    options.temperatures = &greedy;
    options.temperature_count = 1;
    options.callback = [](void* user, const weft_heard* heard) {
      return *static_cast<std::string*>(user) += heard->text, 0;
    };
    options.user = &text;
    options.words = 1;
    weft_error error = {};
    EXPECT_EQ(weft_listen(listener_, samples_.data(), samples_.size(), &options, &error), wanted) << error.sentence;
    return text;
  }
  void use(weft_session* session) {
    ASSERT_EQ(weft_session_use_duty(session, duty_, &error_), WEFT_OK) << error_.sentence;
    ASSERT_EQ(weft_listener_use_duty(listener_, duty_, &error_), WEFT_OK) << error_.sentence;
  }
  void share(float share) { ASSERT_EQ(weft_duty_set_share(duty_, share, &error_), WEFT_OK) << error_.sentence; }

  weft_model* whisper_ = nullptr;
  weft_listener* listener_ = nullptr;
  weft_duty* duty_ = nullptr;
  std::vector<float> samples_ = std::vector<float>(16000);
};

TEST_F(CommonDutyTest, AListenerAndASessionKeepToOneShare) {
  weft_session* const session = make_session(WEFT_POLICY_THROUGHPUT);
  const Ids want = answer(session, 20);
  const std::string text = hear();
  EXPECT_FALSE(text.empty());
  lose_device_at(0);
  hear();
  const size_t whole = submissions();
  use(session);
  lose_device_at(0);
  EXPECT_EQ(hear(), text);
  EXPECT_GE(submissions(), whole + 6);  // layers of the encoder, of the decoder's keys and of the words are alone
  EXPECT_LE(most_under_way(), 2u);
  for (const float part : {0.5f, 0.25f}) {
    share(part);
    const double before = weft_duty_busy_seconds(duty_);
    lose_device_at(0);
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(hear(), text);
    EXPECT_EQ(answer(session, 20), want);
    const double all = std::chrono::duration<double>(Clock::now() - begin).count(), busy = busy_seconds();
    std::printf("  busy for %.1f ms of %.1f ms, in %zu submissions\n", busy * 1e3, all * 1e3, submissions());
    EXPECT_EQ(most_under_way(), 1u);
    EXPECT_LE(busy, most_busy(part, all));
    EXPECT_GE(weft_duty_busy_seconds(duty_) - before, busy);
  }
  // The users of a duty keep to it after its owner has freed it.
  weft_duty_free(std::exchange(duty_, nullptr));
  lose_device_at(0);
  EXPECT_EQ(hear(), text);
  EXPECT_EQ(most_under_way(), 1u);
  // Without one, all is as it was.
  ASSERT_EQ(weft_listener_use_duty(listener_, nullptr, &error_), WEFT_OK);
  ASSERT_EQ(weft_session_use_duty(session, nullptr, &error_), WEFT_OK);
  lose_device_at(0);
  EXPECT_EQ(hear(), text);
  EXPECT_EQ(submissions(), whole);
  EXPECT_EQ(answer(session, 20), want);
}

// Each thread may have begun a submission when the other's is counted.
TEST_F(CommonDutyTest, TwoThreadsKeepToOneShare) {
  weft_session* const session = make_session(WEFT_POLICY_THROUGHPUT);
  const Ids want = answer(session, 40);
  const std::string text = hear();
  use(session);
  share(0.25f);
  lose_device_at(0);
  const Clock::time_point begin = Clock::now();
  std::string heard;
  std::thread thread([&] { heard = hear(); });
  EXPECT_EQ(answer(session, 40), want);
  thread.join();
  const double all = std::chrono::duration<double>(Clock::now() - begin).count(), busy = busy_seconds();
  std::printf("  busy for %.1f ms of %.1f ms, in %zu submissions\n", busy * 1e3, all * 1e3, submissions());
  EXPECT_EQ(heard, text);
  EXPECT_LE(most_under_way(), 2u);
  EXPECT_LE(busy, most_busy(0.25, all) + 0.75 * longest_busy_seconds());
}

TEST_F(CommonDutyTest, ShareZeroHaltsBothUntilItIsSetAgain) {
  weft_session* const session = make_session(WEFT_POLICY_THROUGHPUT);
  const Ids want = answer(session, 10);
  const std::string text = hear();
  use(session);
  share(0);
  lose_device_at(0);
  std::string heard;
  Ids got;
  std::thread hearing([&] { heard = hear(); }), answering([&] { got = answer(session, 10); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(submissions(), 0u);
  share(1);
  hearing.join();
  answering.join();
  EXPECT_EQ(heard, text);
  EXPECT_EQ(got, want);
  // A cancel ends the pause.
  share(0);
  std::thread cancelled([&] { hear(WEFT_CANCELLED); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  weft_listener_cancel(listener_);
  cancelled.join();
}

TEST_F(CommonDutyTest, ABatchCountsOnce) {
  weft_session* const sessions[] = {make_session(), make_session(WEFT_POLICY_THROUGHPUT), make_session()};
  for (weft_session* const session : sessions) use(session);
  share(0.25f);
  expect_share_of_batch(0.25, sessions, 30);
}

TEST_F(CommonDutyTest, EncodersKeepToItToo) {
  const api::Duty duty(0.5f);
  const auto golden = [](const char* name) { return (source_folder() / "tests/model" / name).string(); };
  const api::Model sentences(golden("golden_sentences/qwen3"));
  api::Encoder encoder(sentences);
  const Ids ids = sentences.tokenize("tea", true);
  encoder.run(ids);
  const std::vector<float> want = encoder.embedding();
  encoder.use_duty(duty);
  encoder.run(ids);
  EXPECT_EQ(encoder.embedding(), want);
  const double read = duty.busy_seconds();
  EXPECT_GT(read, 0);
  const api::Model rater(golden("golden_sentences/qwen3-reranker"));
  api::Reranker reranker(rater);
  const float score = reranker.rate("tea", "green tea").score;
  EXPECT_EQ(duty.busy_seconds(), read);
  reranker.use_duty(duty);
  EXPECT_EQ(reranker.rate("tea", "green tea").score, score);
  EXPECT_GT(duty.busy_seconds(), read);
  for (const char* const name : {"golden_images/idefics3", "golden_images/qwen3-vl"}) {
    const api::Model model(golden(name));
    static_cast<void>(model.describe());  // waits until all layers are loaded, whose copies are submissions too
    api::ImageEncoder pictures(model, golden(name));
    pictures.use_duty(duty);
    const double before = duty.busy_seconds();
    lose_device_at(0);
    pictures.encode(golden("golden_images/pictures/alpha.png"));
    EXPECT_GT(duty.busy_seconds(), before) << name;
    EXPECT_EQ(most_under_way(), 1u);
  }
}

TEST_F(CommonDutyTest, Refusals) {
  for (const float wrong : {-0.01f, 1.01f, NAN, INFINITY})
    EXPECT_EQ(weft_duty_set_share(duty_, wrong, &error_), WEFT_INVALID_ARGUMENT) << wrong;
  EXPECT_EQ(weft_duty_set_share(nullptr, 1, &error_), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_duty_create(nullptr, &error_), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_use_duty(nullptr, duty_, &error_), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_listener_use_duty(nullptr, duty_, &error_), WEFT_INVALID_ARGUMENT);
  weft_duty_free(nullptr);
}

TEST_F(DutyTest, Refusals) {
  weft_session* const polite = make_session();
  for (const float wrong : {-0.01f, 1.01f, NAN, INFINITY})
    EXPECT_EQ(set(polite, wrong), WEFT_INVALID_ARGUMENT) << wrong;
  EXPECT_EQ(set(nullptr, 1), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_set_pause_callback(nullptr, Pauses::add, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(set(make_session(WEFT_POLICY_THROUGHPUT), 0.5f), WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.place, "duty");
  EXPECT_STREQ(error_.hint, "create it with WEFT_POLICY_POLITE");
}

}  // namespace
}  // namespace weft
