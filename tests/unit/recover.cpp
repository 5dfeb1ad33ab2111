// The device is lost, through the C API: the text goes on as it would have.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <cmath>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "support/losable_vulkan.h"
#include "support/model_maker.h"
#include "weft/batch.h"
#include "weft/descriptor.h"
#include "weft/lens.h"
#include "weft/recover.h"
#include "weft/soft.h"
#include "weft/speculate.h"

namespace weft {
namespace {

using Ids = std::vector<uint32_t>;

class RecoverTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("WEFT_CACHE_DIR", folder_.c_str(), 1);
    make_gguf(file(), LlamaShape(), {DType::q8_0, 5, ""});
    lose_device_at(0);
    refuse_devices(false);
    // Keeps the driver in memory, so that what it leaks is known to be the driver's.
    static weft_model* const kept = [&] {
      weft_model* model = nullptr;
      weft_model_load(file().c_str(), nullptr, &model, nullptr);
      return model;
    }();
    if (!kept) GTEST_SKIP() << "there is no device";
    before_ = open_devices();
    ASSERT_EQ(weft_model_load(file().c_str(), nullptr, &model_, &error_), WEFT_OK) << error_.sentence;
  }
  void TearDown() override {
    lose_device_at(0);
    refuse_devices(false);
    refuse_memory(false);
    for (weft_session* session : sessions_) weft_session_free(session);
    weft_model_free(model_);
    EXPECT_EQ(open_devices(), before_ + hanging_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path file() const { return folder_ / "m.gguf"; }

  weft_session* make_session(weft_policy policy = WEFT_POLICY_THROUGHPUT) {
    weft_session_options options = weft_session_options_default();
    options.policy = policy;
    weft_session* session = nullptr;
    EXPECT_EQ(weft_session_create(model_, &options, &session, &error_), WEFT_OK) << error_.sentence;
    sessions_.push_back(session);
    return session;
  }

  weft_status generate(weft_session* session, uint32_t count, Ids& ids) {
    weft_generate_options options = {count, 1,
                                     [](void* user, uint32_t id, const char*, size_t) {
                                       if (id != WEFT_NO_TOKEN) static_cast<Ids*>(user)->push_back(id);
                                       return 0;
                                     },
                                     &ids};
    return weft_session_generate(session, &options, nullptr, &error_);
  }

  // A new answer to the same prompt, with everything computed anew.
  weft_status answer(weft_session* session, uint32_t count, Ids& ids) {
    const Ids prompt = {5, 9, 2, 7, 7, 3, 1, 8, 5, 9, 2};
    weft_session_reset(session);
    EXPECT_EQ(weft_session_prompt(session, prompt.data(), prompt.size(), &error_), WEFT_OK) << error_.sentence;
    return generate(session, count, ids);
  }

  Ids answer(weft_session* session, uint32_t count) {
    Ids ids;
    EXPECT_EQ(answer(session, count, ids), WEFT_OK) << error_.sentence << " " << error_.place;
    return ids;
  }

  // The answer is the same whichever of its submissions loses the device.
  void lose_at_each(weft_session* session, uint32_t count, size_t step = 1) {
    const Ids want = answer(session, count);
    ASSERT_EQ(want.size(), count);
    lose_device_at(0);
    ASSERT_EQ(answer(session, count), want);
    const size_t all = submissions();
    ASSERT_GE(all, 4u);
    for (size_t n = 1; n <= all; n += step) {
      lose_device_at(n);
      ASSERT_EQ(answer(session, count), want) << "submission " << n << " of " << all;
      ASSERT_EQ(open_devices(), before_ + 1);
    }
  }

  std::filesystem::path folder_;
  weft_model* model_ = nullptr;
  std::vector<weft_session*> sessions_;
  size_t before_ = 0, hanging_ = 0;  // open devices; those that were given up in this test
  weft_error error_ = {};
};

void set_sampling(weft_session* session, float temperature) {
  weft_sampling sampling = weft_sampling_default();
  sampling.temperature = temperature;
  sampling.repeat_penalty = 1.2f;
  sampling.seed = 11;
  ASSERT_EQ(weft_session_set_sampling(session, &sampling, nullptr), WEFT_OK);
}

// No row is told twice, and none is left out.
TEST_F(RecoverTest, LostAtEverySubmissionOfALens) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  const weft_model_info info = weft_model_get_info(model_);
  make_tuned_lens(folder_ / "tuned", info.width, info.layers, [](uint32_t layer, uint32_t row, uint32_t col) {
    return std::sin(static_cast<float>(layer + row + 3 * col));
  });
  ASSERT_EQ(weft_session_set_tuned_lens(session, (folder_ / "tuned").c_str(), &error_), WEFT_OK) << error_.sentence;
  const Ids prompt = {5, 9, 2, 7, 7, 3, 1, 8, 5, 9, 2};
  using Rows = std::vector<std::vector<float>>;
  const auto lens = [&] {
    Rows rows;
    weft_session_reset(session);
    EXPECT_EQ(weft_session_prompt(session, prompt.data(), prompt.size(), &error_), WEFT_OK);
    const auto callback = [](void* user, const weft_lens_row* row) {
      static_cast<Rows*>(user)->push_back({static_cast<float>(row->layer), static_cast<float>(row->position),
                                           row->hidden[0], row->hidden[1], row->logits[0], row->logits[1]});
      return 0;
    };
    EXPECT_EQ(weft_session_lens(session, nullptr, callback, &rows, &error_), WEFT_OK) << error_.sentence;
    return rows;
  };
  const Rows want = lens();
  EXPECT_EQ(want.size(), prompt.size() * (info.layers + 1));
  lose_device_at(0);
  ASSERT_EQ(lens(), want);
  const size_t all = submissions();
  ASSERT_GE(all, 4u);
  for (size_t n = 1; n <= all; ++n) {
    lose_device_at(n);
    ASSERT_EQ(lens(), want) << "submission " << n << " of " << all;
  }
}

// Their rows are on the host; the table's rows are read again.
TEST_F(RecoverTest, LostAtEverySubmissionOfSoftTokens) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  const Ids ids = {5, 9, 2, 7, 7, 3, 1, 8};
  const uint32_t width = weft_model_get_info(model_).width, vocab = weft_model_get_info(model_).vocab_size;
  const auto logits = [&] {
    std::vector<float> rows(3 * width), values(vocab);
    EXPECT_EQ(weft_model_rows(model_, &ids[2], 3, rows.data(), &error_), WEFT_OK) << error_.sentence;
    rows[width] += 1;
    const weft_prompt_part parts[] = {{ids.data(), nullptr, 5}, {nullptr, rows.data(), 3}, {&ids[5], nullptr, 3}};
    weft_session_reset(session);
    EXPECT_EQ(weft_session_prompt_parts(session, parts, 3, &error_), WEFT_OK) << error_.sentence;
    EXPECT_EQ(weft_session_logits(session, values.data(), vocab, &error_), WEFT_OK) << error_.sentence;
    return values;
  };
  const std::vector<float> want = logits();
  lose_device_at(0);
  ASSERT_EQ(logits(), want);
  const size_t all = submissions();
  ASSERT_GE(all, 3u);
  for (size_t n = 1; n <= all; ++n) {
    lose_device_at(n);
    ASSERT_EQ(logits(), want) << "submission " << n << " of " << all;
  }
  // Lost after the rows came to the device.
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  std::vector<float> values(vocab);
  ASSERT_EQ(weft_session_logits(session, values.data(), vocab, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(values, want);
}

TEST_F(RecoverTest, LostAtEverySubmissionOfAnAnswer) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  for (const float temperature : {0.0f, 0.9f}) {
    set_sampling(session, temperature);
    lose_at_each(session, 40);
  }
}

// Of a model whose vocabulary table is on two devices: either of them.
TEST_F(RecoverTest, LostAtEverySubmissionOfAnAnswerOfTwoDevices) {
  weft_session* const plain = make_session();
  set_sampling(plain, 0.9f);
  const Ids want = answer(plain, 12);
  weft_model_options options = weft_model_options_default();
  options.device = "0:1;0:1";
  weft_model* model = nullptr;
  ASSERT_EQ(weft_model_load(file().c_str(), &options, &model, &error_), WEFT_OK) << error_.sentence;
  weft_session* session = nullptr;
  ASSERT_EQ(weft_session_create(model, nullptr, &session, &error_), WEFT_OK);
  set_sampling(session, 0.9f);
  ASSERT_EQ(answer(session, 12), want);
  // Without recovery the error names the device that has the rows, where it is that one.
  bool named = false;
  for (size_t n = 1; n <= 6; ++n) {
    Ids ids;
    lose_device_at(n);
    ASSERT_EQ(answer(session, 12, ids), WEFT_DEVICE_LOST);
    named |= std::string(error_.place).find("which has the vocabulary's rows from 256 on") != std::string::npos;
    lose_device_at(0);
    ASSERT_EQ(weft_model_recover(model, &error_), WEFT_OK) << error_.sentence;
  }
  EXPECT_TRUE(named);
  ASSERT_EQ(weft_model_set_recovery(model, 1, &error_), WEFT_OK);
  lose_device_at(0);
  ASSERT_EQ(answer(session, 12), want);
  const size_t all = submissions();
  ASSERT_GE(all, 4 * 12u);
  for (size_t n = 1; n <= all; n += 3) {
    lose_device_at(n);
    ASSERT_EQ(answer(session, 12), want) << "submission " << n << " of " << all;
    ASSERT_EQ(open_devices(), before_ + 3);
  }
  weft_session_free(session);
  weft_model_free(model);
}

// Submissions, waits, and what reads the timestamps of a token: the caller is told of each token once.
TEST_F(RecoverTest, LostAtEveryCallOfAnAnswer) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  set_sampling(session, 0.9f);
  const Ids want = answer(session, 6);
  bool timestamps = false;
  for (size_t n = 1;; ++n) {
    fail_vulkan_at(kLost, n);
    ASSERT_EQ(answer(session, 6), want) << "call " << n << " " << failed_vulkan_call();
    const char* const failed = failed_vulkan_call();
    if (!failed) break;
    timestamps |= std::string_view(failed) == "vkGetQueryPoolResults";
  }
  fail_vulkan_at(kLost, 0);
  const bool read = std::getenv("WEFT_DISABLE") == nullptr && weft_session_get_stats(session).stage_count > 0;
  EXPECT_EQ(timestamps, read);
}

// The thread that uploads the layers is joined before the buffers go that it fills.
TEST_F(RecoverTest, WhileLayersAreLoaded) {
  LlamaShape shape;
  shape.layers = 24;
  make_gguf(file(), shape, {DType::q8_0, 5, ""});
  for (int i = 0; i < 4; ++i) {
    weft_model* model = nullptr;
    ASSERT_EQ(weft_model_load(file().c_str(), nullptr, &model, &error_), WEFT_OK) << error_.sentence;
    EXPECT_EQ(weft_model_recover(model, &error_), WEFT_OK) << error_.sentence;
    weft_model_free(model);
  }
}

TEST_F(RecoverTest, Politely) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session(WEFT_POLICY_POLITE);
  set_sampling(session, 0.9f);
  lose_at_each(session, 12);
}

// What a session was told to do it does on the new device, too.
TEST_F(RecoverTest, SettingsStay) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  const uint32_t biased[] = {3};
  const std::string kept = (folder_ / "kept").string();
  const Ids ids = {1, 4, 5, 6, 7, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
  ASSERT_EQ(weft_vocab_save(model_, ids.data(), ids.size(), kept.c_str(), &error_), WEFT_OK) << error_.sentence;
  const float biases[] = {2};
  const std::string heads = (folder_ / "heads.gguf").string();
  make_medusa(heads, LlamaShape().width, 3);
  for (const std::function<weft_status(weft_session*)>& set : std::vector<std::function<weft_status(weft_session*)>>{
           [&](weft_session* s) { return weft_session_set_head(s, "certified", &error_); },
           [&](weft_session* s) { return weft_session_set_head(s, ("keep:" + kept).c_str(), &error_); },
           [&](weft_session* s) { return weft_session_set_speculation(s, WEFT_SPECULATE_LOOKUP, &error_); },
           [&](weft_session* s) { return weft_session_set_draft(s, model_, &error_); },
           [&](weft_session* s) { return weft_session_set_medusa(s, heads.c_str(), &error_); },
           [&](weft_session* s) { return weft_session_set_logit_bias(s, biased, biases, 1, &error_); },
           [&](weft_session* s) { return weft_session_set_logprobs(s, 3, &error_); },
           [&](weft_session* s) {
             return weft_session_set_grammar(s, WEFT_GRAMMAR_REGEX, "[a-p]{30,60}", "test", &error_);
           }}) {
    weft_session* const session = make_session();
    set_sampling(session, 0.9f);
    ASSERT_EQ(set(session), WEFT_OK) << error_.sentence;
    lose_at_each(session, 8, 3);
  }
}

// A draft on a device of its own: the session goes on without it, and the next answer brings it back.
TEST_F(RecoverTest, ADraftsDevice) {
  weft_model* draft = nullptr;
  ASSERT_EQ(weft_model_load(file().c_str(), nullptr, &draft, &error_), WEFT_OK) << error_.sentence;
  for (weft_model* model : {model_, draft}) ASSERT_EQ(weft_model_set_recovery(model, 1, &error_), WEFT_OK);
  // The first passes are the session's own, and it guesses after them.
  Ids want;
  for (const size_t n : {0, 4, 6, 7, 8, 9, 10}) {
    SCOPED_TRACE(n);
    weft_session* const session = make_session();
    set_sampling(session, 0.9f);
    ASSERT_EQ(weft_session_set_draft(session, draft, &error_), WEFT_OK) << error_.sentence;
    lose_device_at(n);
    const Ids ids = answer(session, 12);
    if (n == 0) {
      want = ids;
      EXPECT_GT(weft_session_get_speculation_stats(session).passes, 0u);
    }
    EXPECT_EQ(ids, want);
    EXPECT_EQ(answer(session, 12), want);
    EXPECT_EQ(open_devices(), before_ + 2);
    weft_session_free(session);
    sessions_.pop_back();
  }
  weft_model_free(draft);
}

TEST_F(RecoverTest, WithoutRecoveryItIsAnError) {
  weft_session* const session = make_session();
  set_sampling(session, 0.9f);
  const Ids want = answer(session, 20);
  lose_device_at(6);
  Ids ids;
  EXPECT_EQ(answer(session, 20, ids), WEFT_DEVICE_LOST);
  ASSERT_LT(ids.size(), 20u);
  // The context has what was generated, and every call that needs the device says the same.
  EXPECT_EQ(weft_session_get_stats(session).context_used, 11 + ids.size());
  EXPECT_EQ(generate(session, 5, ids), WEFT_DEVICE_LOST);
  std::vector<float> logits(weft_model_get_info(model_).vocab_size);
  EXPECT_EQ(weft_session_logits(session, logits.data(), logits.size(), &error_), WEFT_DEVICE_LOST);
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(generate(session, static_cast<uint32_t>(20 - ids.size()), ids), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids, want);
}

// The device goes between two calls, and is brought back by another session.
TEST_F(RecoverTest, AnIdleSessionGoesOn) {
  weft_session* const idle = make_session();
  const Ids want = answer(idle, 20);
  Ids ids = answer(idle, 8);
  weft_session* const other = make_session();
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  lose_device_at(3);
  EXPECT_EQ(answer(other, 20), want);
  EXPECT_EQ(generate(idle, 12, ids), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids, want);
}

TEST_F(RecoverTest, OtherCallsThanGenerate) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  set_sampling(session, 0.9f);
  const Ids want = answer(session, 10);
  const std::string saved = (folder_ / "saved").string();
  std::vector<float> logits(weft_model_get_info(model_).vocab_size), again(logits.size()), nll(want.size() - 1);
  ASSERT_EQ(weft_session_logits(session, logits.data(), logits.size(), &error_), WEFT_OK);
  for (const size_t n : {1, 2}) {
    lose_device_at(n);
    ASSERT_EQ(weft_session_logits(session, again.data(), again.size(), &error_), WEFT_OK) << error_.sentence;
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(again[i], logits[i], 1e-3);
  }
  lose_device_at(1);
  ASSERT_EQ(weft_session_save(session, saved.c_str(), nullptr, &error_), WEFT_OK) << error_.sentence;
  lose_device_at(1);
  ASSERT_EQ(weft_session_score(session, want.data(), want.size(), nll.data(), &error_), WEFT_OK) << error_.sentence;
  lose_device_at(1);
  ASSERT_EQ(weft_session_restore(session, saved.c_str(), nullptr, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(weft_session_get_stats(session).context_used, 21u);
  lose_device_at(0);
  EXPECT_EQ(answer(session, 10), want);
}

TEST_F(RecoverTest, TheDeviceDoesNotComeBack) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  const Ids want = answer(session, 10);
  refuse_devices(true);
  lose_device_at(4);
  Ids ids;
  const weft_status status = answer(session, 10, ids);
  EXPECT_NE(status, WEFT_OK);
  EXPECT_NE(error_.sentence[0], 0);
  EXPECT_EQ(generate(session, 1, ids), status);
  EXPECT_NE(weft_model_recover(model_, &error_), WEFT_OK);
  EXPECT_GT(weft_model_get_info(model_).vocab_bytes, 0u);
  refuse_devices(false);
  EXPECT_EQ(answer(session, 10), want);  // later it is there
}

TEST_F(RecoverTest, TheFileHasGone) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 10);
  lose_device_at(4);
  Ids ids;
  ASSERT_EQ(answer(session, 10, ids), WEFT_DEVICE_LOST);
  std::filesystem::rename(file(), folder_ / "elsewhere");
  EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_NOT_FOUND) << error_.sentence;
  EXPECT_EQ(generate(session, 1, ids), WEFT_DEVICE_LOST);
  LlamaShape other;
  other.layers = 3;
  make_gguf(file(), other, {DType::q8_0, 5, ""});
  EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_BAD_FILE);
  EXPECT_STREQ(error_.sentence, "it is not the model that was loaded");
  std::filesystem::rename(folder_ / "elsewhere", file());
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(answer(session, 10), want);
}

// There is a device again, but no room for the weights: the model has none until there is.
TEST_F(RecoverTest, TheWeightsDoNotFitAnyMore) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 10);
  weft_batch* batch = nullptr;
  ASSERT_EQ(weft_batch_create(model_, &batch, &error_), WEFT_OK);
  refuse_memory(true);
  for (const bool automatic : {false, true}) {
    ASSERT_EQ(weft_model_set_recovery(model_, automatic, &error_), WEFT_OK);
    EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_OUT_OF_MEMORY) << error_.sentence;
    const weft_status expected = automatic ? WEFT_OUT_OF_MEMORY : WEFT_DEVICE_LOST;
    Ids ids;
    EXPECT_EQ(generate(session, 1, ids), expected);
    std::vector<float> logits(weft_model_get_info(model_).vocab_size);
    EXPECT_EQ(weft_session_logits(session, logits.data(), logits.size(), &error_), expected);
    EXPECT_EQ(weft_session_save(session, (folder_ / "saved").c_str(), nullptr, &error_), expected);
    const Ids prompt = {1, 2};
    EXPECT_EQ(weft_session_prompt(session, prompt.data(), prompt.size(), &error_), WEFT_DEVICE_LOST);
    EXPECT_EQ(weft_session_set_head(session, "full", &error_), WEFT_DEVICE_LOST);
    EXPECT_EQ(weft_session_get_stats(session).kv_bytes, 0u);
    EXPECT_EQ(weft_session_get_stats(session).context_used, 21u);
    EXPECT_EQ(weft_model_get_info(model_).vocab_bytes, 0u);
    EXPECT_EQ(weft_model_get_info(model_).layers, 2u);
    char* json = nullptr;
    EXPECT_EQ(weft_model_describe(model_, &json, &error_), WEFT_DEVICE_LOST);
    weft_session* another = nullptr;
    EXPECT_EQ(weft_session_create(model_, nullptr, &another, &error_), WEFT_DEVICE_LOST);
    weft_encoder* encoder = nullptr;
    EXPECT_NE(weft_encoder_create(model_, &encoder, &error_), WEFT_OK);
    const weft_generate_options options = {1, 1, nullptr, nullptr};
    weft_batch_end ended[WEFT_MAX_BATCH];
    size_t count = 0;
    ASSERT_EQ(weft_batch_add(batch, session, &options, &error_), WEFT_OK) << error_.sentence;
    const weft_status stepped = weft_batch_step(batch, ended, &count, &error_);
    EXPECT_TRUE(stepped == WEFT_DEVICE_LOST || (count == 1 && ended[0].error.code == WEFT_DEVICE_LOST)) << stepped;
  }
  refuse_memory(false);
  EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(answer(session, 10), want);
  refuse_memory(true);
  EXPECT_EQ(weft_model_recover(model_, &error_), WEFT_OUT_OF_MEMORY);
  weft_batch_free(batch);  // and all else after it
}

// A submission never ends. After minutes (which this loader leaves out) the device is given up, and nothing of it is
// destroyed: it may still be in use.
TEST_F(RecoverTest, ADeviceThatHangs) {
  weft_session* const session = make_session();
  set_sampling(session, 0.9f);
  const Ids want = answer(session, 20);
  hang_device_at(6);
  Ids ids;
  EXPECT_EQ(answer(session, 20, ids), WEFT_DEVICE_LOST);
  EXPECT_NE(std::string(error_.sentence).find("has not finished its work in"), std::string::npos) << error_.sentence;
  EXPECT_EQ(generate(session, 5, ids), WEFT_DEVICE_LOST);
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(generate(session, static_cast<uint32_t>(20 - ids.size()), ids), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids, want);
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  for (const size_t n : {1, 2, 9}) {
    hang_device_at(n);
    EXPECT_EQ(answer(session, 20), want);
    EXPECT_EQ(destroyed_under_way(), 0u);
  }
  hanging_ = 4;
}

// The descriptor is its owner's, who closes it; the file itself may have lost its name.
TEST_F(RecoverTest, AModelOfADescriptor) {
  const Ids want = answer(make_session(), 10);
  const int descriptor = ::open(file().c_str(), O_RDONLY);
  weft_model* model = nullptr;
  ASSERT_EQ(weft_model_load_fd(descriptor, 0, std::filesystem::file_size(file()), nullptr, &model, &error_), WEFT_OK)
      << error_.sentence;
  ::close(descriptor);
  std::filesystem::remove(file());
  ASSERT_EQ(weft_model_set_recovery(model, 1, &error_), WEFT_OK);
  weft_session* session = nullptr;
  ASSERT_EQ(weft_session_create(model, nullptr, &session, &error_), WEFT_OK);
  weft_model_free(model);
  lose_device_at(4);
  EXPECT_EQ(answer(session, 10), want);
  weft_session_free(session);
}

// The bytes are the caller's, and still there.
TEST_F(RecoverTest, AModelInMemory) {
  const Ids want = answer(make_session(), 10);
  std::ifstream in(file(), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(file());
  weft_model* model = nullptr;
  ASSERT_EQ(weft_model_load_memory(bytes.data(), bytes.size(), nullptr, &model, &error_), WEFT_OK) << error_.sentence;
  ASSERT_EQ(weft_model_set_recovery(model, 1, &error_), WEFT_OK);
  weft_session* session = nullptr;
  ASSERT_EQ(weft_session_create(model, nullptr, &session, &error_), WEFT_OK);
  weft_model_free(model);
  lose_device_at(4);
  EXPECT_EQ(answer(session, 10), want);
  weft_session_free(session);
}

// Lost while a session is written, and while one is read: what has gone into the descriptor is there once.
TEST_F(RecoverTest, ASessionOfADescriptor) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  answer(session, 10);
  const std::filesystem::path plain = folder_ / "plain", lost = folder_ / "lost";
  ASSERT_EQ(weft_session_save(session, plain.c_str(), nullptr, &error_), WEFT_OK);
  const size_t created = created_devices();
  int descriptor = ::open(lost.c_str(), O_WRONLY | O_CREAT, 0600);
  lose_device_at(2);
  ASSERT_EQ(weft_session_save_fd(session, descriptor, nullptr, &error_), WEFT_OK) << error_.sentence;
  ::close(descriptor);
  EXPECT_EQ(created_devices(), created + 1);
  weft_session* const first = make_session();
  descriptor = ::open(plain.c_str(), O_RDONLY);
  lose_device_at(1);
  ASSERT_EQ(weft_session_restore_fd(first, descriptor, nullptr, &error_), WEFT_OK) << error_.sentence;
  ::close(descriptor);
  EXPECT_EQ(created_devices(), created + 2);
  lose_device_at(0);
  weft_session* const second = make_session();
  ASSERT_EQ(weft_session_restore(second, lost.c_str(), nullptr, &error_), WEFT_OK) << error_.sentence;
  Ids want, got;
  ASSERT_EQ(generate(first, 10, want), WEFT_OK);
  ASSERT_EQ(generate(second, 10, got), WEFT_OK);
  EXPECT_EQ(got, want);
}

// Both lose the device, and both bring it back; once is enough.
TEST_F(RecoverTest, SessionsOfSeveralThreads) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  std::vector<weft_session*> sessions = {make_session(), make_session(), make_session()};
  const Ids want = answer(sessions[0], 30);
  for (const size_t n : {3, 20, 50}) {
    lose_device_at(n);
    const size_t created = created_devices();
    std::vector<Ids> ids(sessions.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < sessions.size(); ++i)
      threads.emplace_back([&, i] {
        const Ids prompt = {5, 9, 2, 7, 7, 3, 1, 8, 5, 9, 2};
        weft_session_reset(sessions[i]);
        weft_session_prompt(sessions[i], prompt.data(), prompt.size(), nullptr);
        weft_generate_options options = {30, 1,
                                         [](void* user, uint32_t id, const char*, size_t) {
                                           if (id != WEFT_NO_TOKEN) static_cast<Ids*>(user)->push_back(id);
                                           return 0;
                                         },
                                         &ids[i]};
        weft_error error = {};
        EXPECT_EQ(weft_session_generate(sessions[i], &options, nullptr, &error), WEFT_OK) << error.sentence;
      });
    for (std::thread& thread : threads) thread.join();
    for (const Ids& one : ids) ASSERT_EQ(one, want) << "submission " << n;
    EXPECT_EQ(created_devices(), created + 1);
  }
}

TEST_F(RecoverTest, ABatchIsEmptyAndItsSessionsGoOn) {
  weft_session* const session = make_session();
  const Ids want = answer(session, 20);
  weft_batch* batch = nullptr;
  ASSERT_EQ(weft_batch_create(model_, &batch, &error_), WEFT_OK);
  const Ids prompt = {5, 9, 2, 7, 7, 3, 1, 8, 5, 9, 2};
  weft_session* members[2];
  ASSERT_EQ(weft_session_create_group(model_, nullptr, members, 2, &error_), WEFT_OK) << error_.sentence;
  sessions_.insert(sessions_.end(), members, members + 2);
  Ids ids[2];
  const auto add = [&] {
    for (size_t i = 0; i < 2; ++i) {
      weft_generate_options options = {static_cast<uint32_t>(20 - ids[i].size()), 1,
                                       [](void* user, uint32_t id, const char*, size_t) {
                                         if (id != WEFT_NO_TOKEN) static_cast<Ids*>(user)->push_back(id);
                                         return 0;
                                       },
                                       &ids[i]};
      ASSERT_EQ(weft_batch_add(batch, members[i], &options, &error_), WEFT_OK) << error_.sentence;
    }
  };
  for (weft_session* member : members)
    ASSERT_EQ(weft_session_prompt(member, prompt.data(), prompt.size(), &error_), WEFT_OK);
  add();
  lose_device_at(9);
  weft_batch_end ended[WEFT_MAX_BATCH];
  size_t count = 0;
  weft_status status = WEFT_OK;
  while ((status = weft_batch_step(batch, ended, &count, &error_)) == WEFT_OK) ASSERT_EQ(count, 0u);
  EXPECT_EQ(status, WEFT_DEVICE_LOST);
  ASSERT_EQ(weft_model_recover(model_, &error_), WEFT_OK) << error_.sentence;
  add();
  for (size_t left = 2; left > 0; left -= count)
    ASSERT_EQ(weft_batch_step(batch, ended, &count, &error_), WEFT_OK) << error_.sentence;
  EXPECT_EQ(ids[0], want);
  EXPECT_EQ(ids[1], want);
  weft_batch_free(batch);
}

TEST_F(RecoverTest, NotWhileASessionIsInUse) {
  weft_session* const session = make_session();
  ASSERT_EQ(answer(session, 3).size(), 3u);
  EXPECT_EQ(weft_model_recover(nullptr, &error_), WEFT_INVALID_ARGUMENT);
  struct Told {
    weft_model* model;
    weft_status status = WEFT_OK;
  } told = {model_};
  weft_generate_options options = {1, 1,
                                   [](void* user, uint32_t, const char*, size_t) {
                                     auto& to = *static_cast<Told*>(user);
                                     to.status = weft_model_recover(to.model, nullptr);
                                     return 0;
                                   },
                                   &told};
  EXPECT_EQ(weft_session_generate(session, &options, nullptr, &error_), WEFT_OK);
  EXPECT_EQ(told.status, WEFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace weft
