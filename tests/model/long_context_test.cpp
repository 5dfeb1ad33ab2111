// Layers that see a window keep a ring of positions: right past the window and past 4,096 positions, against Hugging
// Face Transformers, which keeps everything and masks (tests/tools/long_context_goldens.py).
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "session/profile.h"
#include "support/model_test.h"
#include "support/source_folder.h"

namespace weft::test {
namespace {

using nlohmann::json;

class LongContextTest : public GpuTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const auto folder = source_folder() / "tests/model/golden-long" / GetParam();
    std::ifstream file(folder / "reference.json");
    const json reference = json::parse(file);
    model_ = load_model(open_device(), folder, Format::f16);
    ids_ = some_ids(4200, model_->config.vocab);
    for (size_t i = 0; i < reference["positions"].size(); ++i)
      logits_[reference["positions"][i]] = reference["logits"][i].get<std::vector<double>>();
  }

  // The session's logits at a position against Transformers', within 2e-3 of their spread.
  void check(Session& session, uint32_t position) {
    session.prompt(std::span(ids_).first(position + 1));
    const std::vector<float> got = session.logits();
    const std::vector<double>& want = logits_.at(position);
    ASSERT_EQ(got.size(), want.size());
    double mean = 0, square = 0;
    for (const double value : want) mean += value / static_cast<double>(want.size());
    for (const double value : want) square += (value - mean) * (value - mean) / static_cast<double>(want.size());
    for (size_t id = 0; id < want.size(); ++id)
      ASSERT_NEAR(got[id], want[id], 2e-3 * std::sqrt(square)) << "position " << position << " id " << id;
  }

  std::unique_ptr<Model> model_;
  std::vector<uint32_t> ids_;
  std::map<uint32_t, std::vector<double>> logits_;
};

TEST_P(LongContextTest, EqualsTransformers) {
  Session session(*model_, 4400, {});
  for (const auto& [position, logits] : logits_) check(session, position);
}

// Where a ring has lost what the profiled tokens see, that is computed again.
TEST_P(LongContextTest, ProfilesAfterARing) {
  if (!model_->device->caps().timestamps) GTEST_SKIP() << "the device has no timestamps";
  Session session(*model_, 400, {}), untouched(*model_, 400, {});
  session.set_sampling(greedy());
  untouched.set_sampling(greedy());
  const std::vector<uint32_t> prompt(ids_.begin(), ids_.begin() + 200);
  std::vector<uint32_t> expected = generate(untouched, prompt, 100), got = generate(session, prompt, 60);
  EXPECT_EQ(profile_pass(session, 64, 1).position, 196u);
  const std::vector<uint32_t> rest = generate(session, std::vector<uint32_t>(session.ids()), 40);
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, expected);
}

// The window of 32 and a chunk of 64 take 128 slots.
TEST_P(LongContextTest, TakesWhatTheWindowNeeds) {
  const Session session(*model_, 4400, {}), within(*model_, 100, {}), whole(*model_, 128, {});
  EXPECT_EQ(within.kv_bytes(), whole.kv_bytes());
  if (GetParam() == "mistral") {
    EXPECT_EQ(session.kv_bytes(), whole.kv_bytes());
  } else {  // one of two layers
    EXPECT_EQ(session.kv_bytes(), whole.kv_bytes() / 2 * (1 + 4416 / 128.0));
  }
}

TEST_P(LongContextTest, GoesBackAsFarAsTheRingReaches) {
  Session session(*model_, 4400, {});
  check(session, 200);
  EXPECT_EQ(session.stats().reused_tokens, 0u);
  check(session, 167);
  EXPECT_EQ(session.stats().reused_tokens, 167u);
  check(session, 33);  // position 2 is lost: from the beginning
  EXPECT_EQ(session.stats().reused_tokens, 167u);
  check(session, 32);
  EXPECT_EQ(session.stats().reused_tokens, 167u + 32);
}

// Tokens that ran ahead of a stop have overwritten older ones.
TEST_P(LongContextTest, GoesOnAfterAStop) {
  Session session(*model_, 700, {}), other(*model_, 700, {});
  session.set_sampling(greedy());
  other.set_sampling(greedy());
  const std::vector<uint32_t> prompt(ids_.begin(), ids_.begin() + 300), all = generate(other, prompt, 60);
  std::vector<uint32_t> got;
  session.prompt(prompt);
  while (got.size() < all.size()) {
    const size_t stop = got.size() + 7;
    session.generate(static_cast<uint32_t>(all.size() - got.size()), true, [&](uint32_t id) {
      got.push_back(id);
      return got.size() < stop;
    });
  }
  EXPECT_EQ(got, all);
}

INSTANTIATE_TEST_SUITE_P(Models, LongContextTest, testing::Values("mistral", "gemma3"),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace weft::test
