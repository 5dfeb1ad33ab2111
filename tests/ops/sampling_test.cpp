// The sampling operations together, as a decoding pass runs them: penalize, filter, sample, advance.
#include <algorithm>
#include <cmath>

#include "reference/filter.h"
#include "reference/penalize.h"
#include "reference/sample.h"
#include "support/op_sampler.h"

namespace weft::test {
namespace {

class SamplingTest : public GpuTest {};

struct Settings {
  float temperature;
  reference::Filters filters;
  float penalty;
};

void apply(const Settings& settings, uint64_t seed, abi::SampleParams& params) {
  params = no_sampling();
  params.inverse_temperature = 1 / settings.temperature;
  params.top_k = settings.filters.top_k;
  params.top_p = static_cast<float>(settings.filters.top_p);
  if (settings.filters.min_p > 0) params.log_min_p = static_cast<float>(std::log(settings.filters.min_p));
  params.repeat_penalty = settings.penalty;
  params.seed_low = static_cast<uint32_t>(seed);
  params.seed_high = static_cast<uint32_t>(seed >> 32);
}

// Thirty tokens of one text: what was sampled is penalised from then on.
void check_text(const Tuning& tuning, const Settings& settings, uint64_t seed) {
  SCOPED_TRACE(tuning.name() + " temperature " + std::to_string(settings.temperature) + " top_k " +
               std::to_string(settings.filters.top_k) + " top_p " + std::to_string(settings.filters.top_p) + " min_p " +
               std::to_string(settings.filters.min_p) + " penalty " + std::to_string(settings.penalty));
  const uint32_t rows = 1500;
  Sampler sampler(tuning, rows, 64, {.penalize = true, .filter = true});
  apply(settings, seed, sampler.params());
  Random random(static_cast<uint32_t>(seed));
  std::vector<bool> seen(rows);
  for (uint32_t end = 1; end < 31; ++end) {
    for (float& logit : sampler.logits()) logit = random.normal() * 3;
    const std::vector<float> logits(sampler.logits().begin(), sampler.logits().end());
    sampler.run();
    const std::vector<float> scores(sampler.scores().begin(), sampler.scores().end());
    ASSERT_TRUE(
        close_to(scores, reference::penalize(logits, seen, settings.penalty, 1 / settings.temperature), 4 * kRounding));
    const reference::Allowed allowed = reference::filter(scores, settings.filters);
    const reference::Sample want = reference::sample_seeded(scores, allowed.ids, seed, end);
    const uint32_t got = sampler.ring()[end % RING].id;
    ASSERT_LT(got, rows);
    if (allowed.margin > 2e-6 && want.lead > 1e-4) {
      ASSERT_EQ(got, want.id) << "at " << end;
    }
    ASSERT_EQ(sampler.history()[end], got);
    seen[got] = true;
  }
}

TEST_F(SamplingTest, TextsAsTheReferenceSamplesThem) {
  for (const bool plain : {false, true}) {
    Tuning tuning;
    tuning.plain = plain;
    check_text(tuning, {1, {}, 1}, 1);
    check_text(tuning, {0.8f, {40, 0.95, 0.05}, 1.1f}, 2);
    check_text(tuning, {1.5f, {0, 0.9, 0}, 1.3f}, uint64_t{3} << 40);
    check_text(tuning, {0.3f, {5, 1, 0}, 1}, 4);
    check_text(tuning, {2, {0, 1, 0.1}, 1}, ~uint64_t{0});
    check_text(tuning, {1, {1, 1, 0}, 1.2f}, 5);  // one is left: the greedy choice
  }
}

TEST_F(SamplingTest, SameSeedSameText) {
  std::vector<uint32_t> texts[3];
  for (int i = 0; i < 3; ++i) {
    Tuning tuning;
    tuning.plain = i == 1;
    Sampler sampler(tuning, 700, 64, {.penalize = true, .filter = true, .repeat = 20});
    apply({1, {50, 0.9, 0}, 1.1f}, i == 2 ? 8 : 7, sampler.params());
    Random random(1);
    for (float& logit : sampler.logits()) logit = random.normal() * 2;
    sampler.run();
    texts[i].assign(sampler.history().begin(), sampler.history().end());
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[0], texts[2]);
}

// 8,000 draws follow the softmax of what the filters leave: a chi-square test, with fixed seeds, so that it passes
// always or never. 27.9 is exceeded by chance once in 1,000 times with 9 degrees of freedom (ten ids are left).
TEST_F(SamplingTest, DrawsFollowTheSoftmax) {
  const uint32_t rows = 12, repeat = 250, draws = 8000;
  Sampler sampler({}, rows, draws + 2, {.penalize = true, .filter = true, .repeat = repeat});
  apply({0.7f, {10, 1, 0}, 1}, 1234, sampler.params());
  const float logits[rows] = {0.1f, 1.2f, -0.4f, 0.7f, 2.0f, -5, 0, 0.9f, -1, 1.5f, -6, 0.3f};
  std::ranges::copy(logits, sampler.logits().begin());
  for (uint32_t i = 0; i < draws / repeat; ++i) sampler.run();
  ASSERT_EQ(sampler.state().end, draws + 1);
  double total = 0, chi_square = 0;
  for (const float logit : logits) total += logit > -4 ? std::exp(logit / 0.7) : 0;
  for (uint32_t id = 0; id < rows; ++id) {
    const auto count = static_cast<double>(std::ranges::count(sampler.history(), id));
    if (logits[id] < -4) {
      EXPECT_EQ(count, 0);
      continue;
    }
    const double expected = draws * std::exp(logits[id] / 0.7) / total;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 27.9);
  EXPECT_GT(chi_square, 1.15);  // nor too good to be chance (once in 1,000)
}

}  // namespace
}  // namespace weft::test
