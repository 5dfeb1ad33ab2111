// The progress of a load and of a prompt, and a prompt's end half-way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/capi_options.h"
#include "support/model_maker.h"
#include "weft/batch.h"
#include "weft/weft.h"

namespace weft {
namespace {

constexpr uint32_t kPrompt = 1000;

class ProgressTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("WEFT_CACHE_DIR", "", 1);
    make_gguf(folder_ / "m.gguf", LlamaShape(), {DType::q8_0, 5, "", {}});
    weft_error error = {};
    const weft_status status = weft_model_load((folder_ / "m.gguf").c_str(), nullptr, &model_, &error);
    if (status == WEFT_NO_DEVICE) GTEST_SKIP() << error.sentence;
    ASSERT_EQ(status, WEFT_OK) << error.sentence;
    session_ = session();
    for (uint32_t i = 0; i < kPrompt; ++i) ids_.push_back(3 + i * 7 % 500);
  }
  void TearDown() override {
    weft_session_free(session_);
    weft_model_free(model_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  weft_session* session() const {
    weft_session* made = nullptr;
    EXPECT_EQ(weft_session_create(model_, nullptr, &made, nullptr), WEFT_OK);
    EXPECT_EQ(test::set_greedy(made), WEFT_OK);
    return made;
  }
  void prompt(uint32_t count = kPrompt) {
    EXPECT_EQ(weft_session_prompt(session_, ids_.data(), count, nullptr), WEFT_OK);
  }
  struct Seen {
    weft_session* session;
    std::vector<std::pair<uint32_t, uint32_t>> reports = {};
    uint32_t end_at = UINT32_MAX;  // done
    bool by_cancel = false;
  };
  // Options with a callback for the prompt; seen NULL: without.
  static weft_generate_options options(uint32_t tokens, Seen* seen) {
    weft_generate_options made = test::generate_options(tokens);
    made.user = seen;
    if (!seen) return made;
    made.prompt_callback = [](void* user, uint32_t done, uint32_t all) {
      Seen& s = *static_cast<Seen*>(user);
      s.reports.emplace_back(done, all);
      if (done < s.end_at) return 0;
      if (s.by_cancel) weft_session_cancel(s.session);
      return s.by_cancel ? 0 : 1;
    };
    return made;
  }
  weft_stop generate(weft_session* session, Seen* seen = nullptr, uint32_t tokens = 8) const {
    const weft_generate_options options = ProgressTest::options(tokens, seen);
    weft_stop stop = WEFT_STOP_CONTEXT;
    EXPECT_EQ(weft_session_generate(session, &options, &stop, nullptr), WEFT_OK);
    return stop;
  }
  static std::vector<uint32_t> context(const weft_session* session) {
    size_t count = 0;
    EXPECT_EQ(weft_session_get_ids(session, nullptr, 0, &count, nullptr), WEFT_OK);
    std::vector<uint32_t> ids(count);
    EXPECT_EQ(weft_session_get_ids(session, ids.data(), count, &count, nullptr), WEFT_OK);
    return ids;
  }
  // Context of a session that nothing disturbs, after the whole prompt and 8 tokens.
  std::vector<uint32_t> undisturbed() const {
    weft_session* calm = session();
    EXPECT_EQ(weft_session_prompt(calm, ids_.data(), ids_.size(), nullptr), WEFT_OK);
    EXPECT_EQ(generate(calm), WEFT_STOP_LENGTH);
    std::vector<uint32_t> ids = context(calm);
    weft_session_free(calm);
    return ids;
  }

  std::filesystem::path folder_;
  weft_model* model_ = nullptr;
  weft_session* session_ = nullptr;
  std::vector<uint32_t> ids_;
};

// The first load measures the model's states, and then packs the vocabulary table; the second one finds the measured
// states.
TEST_F(ProgressTest, OfLoads) {
  setenv("WEFT_CACHE_DIR", (folder_ / "environment").c_str(), 1);
  ASSERT_EQ(weft_set_cache_folder((folder_ / "cache").c_str(), nullptr), WEFT_OK);
  for (const char* load : {"first", "second"}) {
    std::vector<float> told;
    weft_model_options options = weft_model_options_default();
    options.user = &told;
    options.progress = [](void* user, float done) {
      static_cast<std::vector<float>*>(user)->push_back(done);
      return 0;
    };
    weft_model* model = nullptr;
    ASSERT_EQ(weft_model_load((folder_ / "m.gguf").c_str(), &options, &model, nullptr), WEFT_OK);
    weft_model_free(model);
    EXPECT_TRUE(std::ranges::is_sorted(told)) << load;
    EXPECT_EQ(told.back(), 1) << load;
    EXPECT_TRUE(std::ranges::any_of(told, [](float done) { return done > 0.5f && done < 1; })) << load;
    EXPECT_LE(std::ranges::count(told, 1.0f), 3) << load;  // then it returns
  }
  ASSERT_EQ(weft_set_cache_folder(nullptr, nullptr), WEFT_OK);
  setenv("WEFT_CACHE_DIR", "", 1);
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "cache"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "environment"));
}

TEST_F(ProgressTest, CountsFromNothingToAll) {
  Seen seen = {session_};
  prompt();
  EXPECT_EQ(generate(session_, &seen), WEFT_STOP_LENGTH);
  EXPECT_EQ(context(session_), undisturbed());
  ASSERT_GE(seen.reports.size(), 3u);
  EXPECT_EQ(seen.reports.front(), std::make_pair(0u, kPrompt));
  EXPECT_EQ(seen.reports.back(), std::make_pair(kPrompt, kPrompt));
  for (size_t i = 1; i < seen.reports.size(); ++i) {
    EXPECT_GE(seen.reports[i].first, seen.reports[i - 1].first);
    EXPECT_EQ(seen.reports[i].second, kPrompt);
  }
  EXPECT_GT(seen.reports[seen.reports.size() - 2].first, 0u);
  // Without a callback nothing is reported; a reused prefix is not counted.
  const size_t told = seen.reports.size();
  EXPECT_EQ(generate(session_, nullptr, 1), WEFT_STOP_LENGTH);
  EXPECT_EQ(seen.reports.size(), told);
  prompt(kPrompt - 10);
  EXPECT_EQ(generate(session_, &seen, 1), WEFT_STOP_LENGTH);
  EXPECT_EQ(seen.reports.back(), std::make_pair(1u, 1u));
}

// A prompt that ends half-way, by either means: nothing is generated, the ids stay, and the computed part is not
// computed again.
TEST_F(ProgressTest, GoesOnAfterItWasEnded) {
  const std::vector<uint32_t> want = undisturbed();
  for (const bool by_cancel : {false, true}) {
    SCOPED_TRACE(by_cancel);
    weft_session_reset(session_);
    Seen seen = {session_, {}, kPrompt / 2, by_cancel};
    prompt();
    EXPECT_EQ(generate(session_, &seen), WEFT_STOP_CALLER);
    EXPECT_EQ(context(session_), ids_);
    ASSERT_LT(seen.reports.back().first, kPrompt);
    ASSERT_GE(seen.reports.back().first, kPrompt / 2);
    EXPECT_EQ(test::stats_of(session_).prompt_tokens, 0u);
    seen.end_at = UINT32_MAX;
    const uint32_t computed = seen.reports.back().first;
    seen.reports.clear();
    EXPECT_EQ(generate(session_, &seen), WEFT_STOP_LENGTH);
    EXPECT_EQ(context(session_), want);
    EXPECT_LE(seen.reports.front().second, kPrompt - computed);
    EXPECT_EQ(seen.reports.back().first, seen.reports.back().second);
  }
}

// Another prompt that shares a prefix with the one that was ended.
TEST_F(ProgressTest, AnotherPromptAfterItWasEnded) {
  Seen seen = {session_, {}, kPrompt / 2, true};
  prompt();
  EXPECT_EQ(generate(session_, &seen), WEFT_STOP_CALLER);
  ids_.resize(400);
  prompt(400);
  EXPECT_EQ(generate(session_), WEFT_STOP_LENGTH);
  EXPECT_EQ(test::stats_of(session_).reused_tokens, 399u);
  EXPECT_EQ(context(session_), undisturbed());
}

// At the last report the first token is there: it stays, and nothing follows.
TEST_F(ProgressTest, EndedAtTheLastReport) {
  Seen seen = {session_, {}, 20};
  prompt(20);
  EXPECT_EQ(generate(session_, &seen), WEFT_STOP_CALLER);
  EXPECT_EQ(context(session_).size(), 21u);
}

TEST_F(ProgressTest, InABatch) {
  Seen seen = {session_, {}, kPrompt / 2};
  prompt();
  weft_batch* batch = nullptr;
  ASSERT_EQ(weft_batch_create(model_, &batch, nullptr), WEFT_OK);
  const weft_generate_options options = ProgressTest::options(8, &seen);
  const auto run = [&] {
    EXPECT_EQ(weft_batch_add(batch, session_, &options, nullptr), WEFT_OK);
    std::vector<weft_batch_end> ended(WEFT_MAX_BATCH);
    size_t count = 0;
    for (int steps = 0; count == 0 && steps < 100; ++steps)
      EXPECT_EQ(weft_batch_step(batch, ended.data(), &count, nullptr), WEFT_OK);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(ended[0].error.code, WEFT_OK);
    return ended[0].stop;
  };
  EXPECT_EQ(run(), WEFT_STOP_CALLER);
  EXPECT_EQ(context(session_), ids_);
  seen.end_at = UINT32_MAX;
  EXPECT_EQ(run(), WEFT_STOP_LENGTH);
  EXPECT_EQ(context(session_), undisturbed());
  EXPECT_EQ(seen.reports.back().first, seen.reports.back().second);
  weft_batch_free(batch);
}

TEST_F(ProgressTest, AStaleCancelCanBeForgotten) {
  prompt(20);
  weft_session_cancel(session_);
  EXPECT_EQ(generate(session_), WEFT_STOP_CALLER);  // as weft.h says
  EXPECT_EQ(context(session_).size(), 20u);
  weft_session_cancel(session_);
  weft_session_clear_cancel(session_);
  EXPECT_EQ(generate(session_), WEFT_STOP_LENGTH);
  EXPECT_EQ(context(session_).size(), 28u);
  weft_session_clear_cancel(nullptr);
}

}  // namespace
}  // namespace weft
