// A head's estimates of each token's logit, through the C API.
#include "weft/estimates.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/capi_test.h"
#include "weft/weft.hpp"

namespace weft {
namespace {

class EstimatesTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    model_ = std::make_unique<api::Model>((folder_ / "m.gguf").string());
    session_ = std::make_unique<api::Session>(*model_);
    weft_sampling greedy = weft_sampling_default();
    greedy.temperature = 0;
    session_->set_sampling(greedy);
    session_->prompt({5, 9, 13, 40});
    rows_.resize(model_->info().vocab_size);
  }
  void TearDown() override {
    session_.reset();
    model_.reset();
    CapiModelTest::TearDown();
  }
  weft_status estimate(const char* head) {
    session_->set_head(head);
    return weft_session_head_estimates(session_->get(), rows_.data(), rows_.size(), &deviations_, &error_);
  }

  std::unique_ptr<api::Model> model_;
  std::unique_ptr<api::Session> session_;
  std::vector<weft_head_estimate> rows_;
  float deviations_ = 0;
  weft_error error_ = {};
};

TEST_F(EstimatesTest, BoundEveryLogit) {
  const std::vector<float> logits = session_->logits();
  float last = INFINITY;
  for (const char* head : {"certified", "sure", "sure:1e-3", "fast:3"}) {
    ASSERT_EQ(estimate(head), WEFT_OK) << head << ": " << error_.sentence;
    EXPECT_GT(deviations_, 0) << head;
    EXPECT_LT(deviations_, last) << head;
    last = deviations_;
    size_t computed = 0, beyond = 0;
    double error = 0, spread = 0;
    for (size_t id = 0; id < rows_.size(); ++id) {
      const weft_head_estimate& row = rows_[id];
      ASSERT_NEAR(row.logit, logits[id], 1e-4) << head << ", token " << id;
      if (std::isinf(row.bound)) {
        ++computed;
        continue;
      }
      ASSERT_GT(row.bound, row.estimate) << head << ", token " << id;
      beyond += row.logit > row.bound ? 1 : 0;
      error += std::pow(row.logit - row.estimate, 2);
      spread += std::pow((row.bound - row.estimate) / deviations_, 2);
    }
    EXPECT_GE(computed, 1u) << head;  // the best one
    EXPECT_LT(computed, rows_.size() / 4) << head;
    EXPECT_LE(beyond, std::string(head) == "fast:3" ? rows_.size() / 50 : 0) << head;
    EXPECT_GT(std::sqrt(error / spread), 0.3) << head;  // in deviations
    EXPECT_LT(std::sqrt(error / spread), 1.5) << head;
  }
  EXPECT_NEAR(deviations_, 3, 0.01);
  EXPECT_EQ(session_->ids(), (std::vector<uint32_t>{5, 9, 13, 40}));
}

TEST_F(EstimatesTest, SaysWhereThereAreNone) {
  for (const char* head : {"full", "auto", "auto:sure", "keep:ascii", "certified+keep:ascii"}) {
    EXPECT_EQ(estimate(head), WEFT_UNSUPPORTED) << head;
    EXPECT_STREQ(error_.place, "head") << head;
  }
  session_->set_head("certified");
  const auto call = [&](weft_head_estimate* rows, size_t count) {
    return weft_session_head_estimates(session_->get(), rows, count, nullptr, &error_);
  };
  EXPECT_EQ(call(rows_.data(), rows_.size()), WEFT_OK);
  EXPECT_EQ(call(rows_.data(), rows_.size() - 1), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(call(nullptr, rows_.size()), WEFT_INVALID_ARGUMENT);
  weft_sampling sampling = weft_sampling_default();
  sampling.top_k = 0;
  sampling.top_p = 0.9f;
  session_->set_sampling(sampling);
  EXPECT_EQ(call(rows_.data(), rows_.size()), WEFT_OK);
  sampling.typical_p = 0.9f;
  session_->set_sampling(sampling);
  EXPECT_EQ(call(rows_.data(), rows_.size()), WEFT_UNSUPPORTED);
  EXPECT_NE(std::string(error_.hint).find("top_k"), std::string::npos);
  api::Session empty(*model_);
  empty.set_head("certified");
  EXPECT_EQ(weft_session_head_estimates(empty.get(), rows_.data(), rows_.size(), nullptr, &error_),
            WEFT_INVALID_ARGUMENT);
}

// After an estimate the head uses again what it has learnt from earlier tokens.
TEST_F(EstimatesTest, ChangeNoToken) {
  const auto generated = [&](bool estimates) {
    session_->prompt({5, 9, 13, 40});
    session_->set_head("sure");
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(estimates ? estimate("sure") : WEFT_OK, WEFT_OK);
      session_->generate(2, {}, true);
    }
    return session_->ids();
  };
  const std::vector<uint32_t> want = generated(false);
  EXPECT_EQ(generated(true), want);
}

}  // namespace
}  // namespace weft
