// The device is lost at every submission, through the C API: the text goes on as it would have.
#include "recover.h"

#include <cmath>
#include <functional>

#include "weft/adapter.h"
#include "weft/lens.h"
#include "weft/soft.h"
#include "weft/speculate.h"

namespace weft {
namespace {

// No row is told twice, and none is left out.
TEST_F(RecoverTest, LostAtEverySubmissionOfALens) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  const weft_model_info info = test::info_of(model_);
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
  for (size_t n = 1; n <= all; n += stride(3)) {
    lose_device_at(n);
    ASSERT_EQ(lens(), want) << "submission " << n << " of " << all;
  }
}

// Rows of soft tokens are on the host; the table's rows are read again.
TEST_F(RecoverTest, LostAtEverySubmissionOfSoftTokens) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  const Ids ids = {5, 9, 2, 7, 7, 3, 1, 8};
  const uint32_t width = test::info_of(model_).width, vocab = test::info_of(model_).vocab_size;
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
  for (size_t n = 1; n <= all; n += stride(3)) {
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
    lose_at_each(session, 12, 5);
  }
}

// The adapter comes back before the session that was made before it.
TEST_F(RecoverTest, LostAtEverySubmissionWithAnAdapter) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session();
  const Ids plain = answer(session, 6);
  make_adapter(folder_ / "lora", LlamaShape(), 2, 1);
  weft_adapter* adapter = nullptr;
  ASSERT_EQ(weft_adapter_load(model_, (folder_ / "lora").c_str(), 1, &adapter, &error_), WEFT_OK) << error_.sentence;
  ASSERT_EQ(weft_session_set_adapter(session, adapter, &error_), WEFT_OK) << error_.sentence;
  weft_adapter_free(adapter);  // the session holds it
  EXPECT_NE(answer(session, 6), plain);
  lose_at_each(session, 6, 5);
}

// The vocabulary table is on two devices: either of them is lost.
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
  // Without recovery the error names the device with these rows, if that was lost.
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
  for (size_t n = 1; n <= all; n += stride(17)) {
    lose_device_at(n);
    ASSERT_EQ(answer(session, 12), want) << "submission " << n << " of " << all;
    ASSERT_EQ(open_devices(), before_ + 3);
  }
  weft_session_free(session);
  weft_model_free(model);
}

// Submissions, waits, and reads of a token's timestamps: the caller gets each token once.
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
  const bool read = std::getenv("WEFT_DISABLE") == nullptr && test::stats_of(session).stage_count > 0;
  EXPECT_EQ(timestamps, read);
}

TEST_F(RecoverTest, Politely) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  weft_session* const session = make_session(WEFT_POLICY_POLITE);
  set_sampling(session, 0.9f);
  lose_at_each(session, 12, 7);
}

// A session keeps its settings on the new device.
TEST_F(RecoverTest, SettingsStay) {
  ASSERT_EQ(weft_model_set_recovery(model_, 1, &error_), WEFT_OK);
  const uint32_t biased[] = {3};
  const std::string kept = (folder_ / "kept").string();
  const Ids ids = {1, 4, 5, 6, 7, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
  ASSERT_EQ(weft_vocab_save(model_, ids.data(), ids.size(), kept.c_str(), &error_), WEFT_OK) << error_.sentence;
  const float biases[] = {2};
  const std::string heads = (folder_ / "heads.gguf").string();
  make_medusa(heads, LlamaShape().width, 3);
  const std::string keep = "keep:" + kept;
  using Change = std::function<void(weft_request & request)>;
  const Change changes[] = {[](weft_request& r) { r.head = "certified"; },
                            [&](weft_request& r) { r.head = keep.c_str(); },
                            [](weft_request& r) { r.speculation = WEFT_SPECULATE_LOOKUP; },
                            [&](weft_request& r) { r.speculation = WEFT_SPECULATE_DRAFT, r.draft = model_; },
                            [&](weft_request& r) { r.speculation = WEFT_SPECULATE_MEDUSA, r.medusa = heads.c_str(); },
                            [&](weft_request& r) { r.bias_ids = biased, r.biases = biases, r.bias_count = 1; },
                            [](weft_request& r) { r.logprobs = 3; },
                            [](weft_request& r) { r.grammar_kind = WEFT_GRAMMAR_REGEX, r.grammar = "[a-p]{30,60}"; }};
  for (const Change& change : changes) {
    weft_session* const session = make_session();
    set_sampling(session, 0.9f);
    ASSERT_EQ(test::change_request(session, change, &error_), WEFT_OK) << error_.sentence;
    lose_at_each(session, 8, 5);
  }
}

}  // namespace
}  // namespace weft
