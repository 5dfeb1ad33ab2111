// The logit lens through the C API, and its C++ wrapper.
#include "weft/lens.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/capi_test.h"
#include "weft/weft.hpp"

namespace weft {
namespace {

using Ids = std::vector<uint32_t>;

class CapiLensTest : public CapiModelTest {
 protected:
  void SetUp() override {
    CapiModelTest::SetUp();
    if (IsSkipped()) return;
    model_ = std::make_unique<api::Model>((folder_ / "m.gguf").string());
    session_ = std::make_unique<api::Session>(*model_);
    for (uint32_t i = 0; i < 70; ++i) ids_.push_back(3 + i * 7 % 200);
    session_->prompt(ids_);
  }
  void TearDown() override {
    session_.reset();
    model_.reset();
    CapiModelTest::TearDown();
  }
  static weft_lens_options lens_options(uint32_t first, uint32_t count, const uint32_t* layers, size_t layer_count) {
    weft_lens_options options = weft_lens_options_default();
    options.first = first;
    options.count = count;
    options.layers = layers;
    options.layer_count = layer_count;
    return options;
  }
  weft_status status(const weft_lens_options& options) const {
    return weft_session_lens(
        session_->get(), &options, [](void*, const weft_lens_row*) { return 1; }, nullptr, nullptr);
  }

  std::unique_ptr<api::Model> model_;
  std::unique_ptr<api::Session> session_;
  Ids ids_;
};

TEST_F(CapiLensTest, TellsEverythingByDefault) {
  const weft_model_info info = model_->info();
  uint32_t rows = 0;
  std::vector<float> last;
  session_->lens([&](const weft_lens_row& row) {
    EXPECT_EQ(row.position, rows / (info.layers + 1));
    EXPECT_EQ(row.layer, rows % (info.layers + 1));
    EXPECT_TRUE(std::isfinite(std::accumulate(row.hidden, row.hidden + info.width, 0.0)));
    last.assign(row.logits, row.logits + info.vocab_size);
    ++rows;
    return true;
  });
  EXPECT_EQ(rows, ids_.size() * (info.layers + 1));
  EXPECT_EQ(session_->ids(), ids_);
  const std::vector<float> logits = session_->logits();
  for (uint32_t id = 0; id < info.vocab_size; ++id) ASSERT_NEAR(last[id], logits[id], 1e-3) << id;
}

TEST_F(CapiLensTest, TellsWhatIsAskedFor) {
  const uint32_t layers[] = {model_->info().layers, 0};
  weft_lens_options options = lens_options(65, 0, layers, 2);
  options.without_logits = 1;
  for (const uint32_t count : {0u, 2u, 5u}) {
    options.count = count;
    std::vector<std::pair<uint32_t, uint32_t>> rows, want;
    for (uint32_t position = 65; position < 65 + (count ? count : 5); ++position)
      for (const uint32_t layer : layers) want.emplace_back(position, layer);
    session_->lens(
        [&](const weft_lens_row& row) {
          EXPECT_EQ(row.logits, nullptr);
          rows.emplace_back(row.position, row.layer);
          return true;
        },
        options);
    EXPECT_EQ(rows, want);
  }
}

TEST_F(CapiLensTest, RefusesWrongCalls) {
  const uint32_t layers[] = {model_->info().layers, model_->info().layers + 1};
  const auto callback = [](void*, const weft_lens_row*) { return 0; };
  EXPECT_EQ(weft_session_lens(nullptr, nullptr, callback, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_lens(session_->get(), nullptr, nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status(lens_options(70, 0, nullptr, 0)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status(lens_options(UINT32_MAX, 0, nullptr, 0)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status(lens_options(60, 11, nullptr, 0)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status(lens_options(0, 0, layers, 2)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status(lens_options(0, 0, layers, 0)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status(lens_options(0, 0, nullptr, 1)), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(status(lens_options(0, 0, layers, 1)), WEFT_CANCELLED);  // which its callback wants
  session_->reset();
  EXPECT_EQ(status(lens_options(0, 0, nullptr, 0)), WEFT_INVALID_ARGUMENT);
}

// Translators with W = -identity replace every state by b.
TEST_F(CapiLensTest, ATunedLens) {
  const weft_model_info info = model_->info();
  const std::string folder = (folder_ / "tuned").string();
  make_tuned_lens(folder, info.width, info.layers, [&](uint32_t layer, uint32_t row, uint32_t col) {
    return col == info.width ? static_cast<float>((row + layer) % 5) : row == col ? -1.0f : 0.0f;
  });
  using Logits = std::vector<float>;
  const auto of_layers = [&](uint32_t position) {
    std::vector<Logits> rows;
    session_->lens(
        [&](const weft_lens_row& row) {
          rows.emplace_back(row.logits, row.logits + info.vocab_size);
          return true;
        },
        lens_options(position, 1, nullptr, 0));
    return rows;
  };
  const std::vector<Logits> plain = of_layers(3);
  session_->set_tuned_lens(folder);
  const std::vector<Logits> one = of_layers(3), other = of_layers(69);
  for (uint32_t layer = 0; layer < info.layers; ++layer) {
    for (uint32_t id = 0; id < info.vocab_size; ++id) ASSERT_NEAR(one[layer][id], other[layer][id], 1e-3);
    EXPECT_NE(one[layer], plain[layer]);
  }
  EXPECT_EQ(one.back(), plain.back());
  // Refused calls change nothing.
  EXPECT_EQ(weft_session_set_tuned_lens(session_->get(), (folder_ / "none").c_str(), nullptr), WEFT_NOT_FOUND);
  EXPECT_EQ(weft_session_set_tuned_lens(session_->get(), "", nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_session_set_tuned_lens(nullptr, folder.c_str(), nullptr), WEFT_INVALID_ARGUMENT);
  make_tuned_lens(folder_ / "wide", info.width + 64, info.layers, [](uint32_t, uint32_t, uint32_t) { return 0.0f; });
  EXPECT_EQ(weft_session_set_tuned_lens(session_->get(), (folder_ / "wide").c_str(), nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(of_layers(3), one);
  session_->set_tuned_lens({});
  EXPECT_EQ(of_layers(3), plain);
}

TEST_F(CapiLensTest, ACallbackMayNotChangeTheSession) {
  uint32_t rows = 0;
  EXPECT_THROW(session_->lens([&](const weft_lens_row&) -> bool {
    ++rows;
    EXPECT_EQ(weft_session_prompt(session_->get(), ids_.data(), 1, nullptr), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(weft_session_lens(
                  session_->get(), nullptr, [](void*, const weft_lens_row*) { return 0; }, nullptr, nullptr),
              WEFT_INVALID_ARGUMENT);
    throw std::logic_error("enough");
  }),
               std::logic_error);
  EXPECT_EQ(rows, 1u);
  EXPECT_EQ(session_->generate(3, {}, true), WEFT_STOP_LENGTH);
}

}  // namespace
}  // namespace weft
