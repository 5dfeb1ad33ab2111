// Shared code of the tests of lost devices: a model whose device can be lost, and an answer to compare with.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/capi_options.h"
#include "support/losable_vulkan.h"
#include "support/model_maker.h"
#include "weft/recover.h"

namespace weft {

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
    // Keeps the driver in memory, so that its leaks are known to be the driver's.
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
    weft_generate_options options = test::generate_options(
        count, 1,
        [](void* user, uint32_t id, const char*, size_t) {
          if (id != WEFT_NO_TOKEN) static_cast<Ids*>(user)->push_back(id);
          return 0;
        },
        &ids);
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

  // Every call is tried with WEFT_SWEEP, else one of `otherwise`.
  static size_t stride(size_t otherwise) { return std::getenv("WEFT_SWEEP") ? 1 : otherwise; }

  // The answer is the same whichever of its submissions loses the device.
  void lose_at_each(weft_session* session, uint32_t count, size_t step = 1) {
    const Ids want = answer(session, count);
    ASSERT_EQ(want.size(), count);
    lose_device_at(0);
    ASSERT_EQ(answer(session, count), want);
    const size_t all = submissions();
    ASSERT_GE(all, 4u);
    for (size_t n = 1; n <= all; n += stride(step)) {
      lose_device_at(n);
      ASSERT_EQ(answer(session, count), want) << "submission " << n << " of " << all;
      ASSERT_EQ(open_devices(), before_ + 1);
    }
    lose_device_at(0);  // an answer with guesses may need fewer submissions than the one before
  }

  std::filesystem::path folder_;
  weft_model* model_ = nullptr;
  std::vector<weft_session*> sessions_;
  size_t before_ = 0, hanging_ = 0;  // open devices; those that were given up in this test
  weft_error error_ = {};
};

inline void set_sampling(weft_session* session, float temperature) {
  weft_sampling sampling = weft_sampling_default();
  sampling.temperature = temperature;
  sampling.repeat_penalty = 1.2f;
  sampling.seed = 11;
  ASSERT_EQ(test::set_sampling(session, sampling, nullptr), WEFT_OK);
}

}  // namespace weft
