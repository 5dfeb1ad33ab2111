// Soft tokens through the C API, and their C++ wrapper.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>

#include "support/capi_test.h"
#include "weft/soft.hpp"

namespace weft {
namespace {

using Ids = std::vector<uint32_t>;

class CapiSoftTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    model_ = std::make_unique<api::Model>((folder_ / "m.gguf").string());
    session_ = std::make_unique<api::Session>(*model_);
    for (uint32_t i = 0; i < 20; ++i) ids_.push_back(3 + i * 7 % 200);
  }
  void TearDown() override {
    session_.reset();
    model_.reset();
    CapiModelTest::TearDown();
  }
  std::vector<float> logits_of(const std::vector<api::PromptPart>& parts) {
    session_->reset();
    api::prompt(*session_, parts, model_->info().width);
    return session_->logits();
  }

  std::unique_ptr<api::Model> model_;
  std::unique_ptr<api::Session> session_;
  Ids ids_;
};

TEST_F(CapiSoftTest, AnOwnRowIsTheId) {
  session_->prompt(ids_);
  const std::vector<float> want = session_->logits();
  const Ids begin(ids_.begin(), ids_.begin() + 8), end(ids_.begin() + 8, ids_.end());
  EXPECT_EQ(logits_of({{begin, {}}, {{}, api::rows(*model_, end)}}), want);
  EXPECT_EQ(session_->ids()[8], WEFT_SOFT_TOKEN);
  EXPECT_EQ(session_->ids()[19], WEFT_SOFT_TOKEN + 11);
  EXPECT_EQ(logits_of({{{}, api::rows(*model_, begin)}, {}, {end, {}}}), want);
  EXPECT_NE(logits_of({{{}, api::rows(*model_, end)}, {begin, {}}}), want);
}

TEST_F(CapiSoftTest, SavedToAFile) {
  api::prompt(*session_, {{ids_, {}}, {{}, api::rows(*model_, {5, 6})}}, model_->info().width);
  session_->logits();
  const std::vector<float> want = session_->logits();  // in a pass of one token, as after restore()
  session_->save((folder_ / "s").string());
  session_->reset();
  session_->restore((folder_ / "s").string());
  EXPECT_EQ(session_->ids().size(), 22u);
  EXPECT_EQ(session_->logits(), want);
}

TEST_F(CapiSoftTest, RefusesWhatIsWrong) {
  const uint32_t width = model_->info().width;
  std::vector<float> row(width, 1);
  weft_error error;
  const auto status = [&](const std::vector<weft_prompt_part>& parts) {
    return weft_session_prompt_parts(session_->get(), parts.data(), parts.size(), &error);
  };
  EXPECT_EQ(status({{ids_.data(), nullptr, 3}, {nullptr, row.data(), 1}, {nullptr, nullptr, 0}}), WEFT_OK);
  EXPECT_EQ(status({}), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status({{nullptr, nullptr, 0}}), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status({{nullptr, nullptr, 1}}), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status({{ids_.data(), row.data(), 1}}), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status({{nullptr, row.data(), SIZE_MAX / 2}}), WEFT_CONTEXT_FULL);
  row[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(status({{nullptr, row.data(), 1}}), WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(error.place, "rows");
  const uint32_t soft = WEFT_SOFT_TOKEN;
  EXPECT_EQ(status({{&soft, nullptr, 1}}), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(session_->ids().size(), 4u);  // all of these left it as it was
  EXPECT_EQ(weft_model_rows(model_->get(), &soft, 1, row.data(), &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_model_rows(model_->get(), nullptr, 1, row.data(), &error), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_model_rows(model_->get(), nullptr, 0, nullptr, &error), WEFT_OK);
  EXPECT_EQ(weft_session_prompt_parts(nullptr, nullptr, 0, &error), WEFT_INVALID_ARGUMENT);
  EXPECT_THROW(api::prompt(*session_, {{ids_, row}}, width), std::invalid_argument);
  EXPECT_THROW(api::prompt(*session_, {{{}, {1, 2}}}, width), std::invalid_argument);
}

}  // namespace
}  // namespace weft
