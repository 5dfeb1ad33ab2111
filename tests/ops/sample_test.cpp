#include "reference/sample.h"

#include <algorithm>
#include <cmath>

#include "support/op_sampler.h"

namespace weft::test {
namespace {

using reference::kNobody;

class SampleTest : public GpuTest {};

// Random123's known answers (its file kat_vectors).
TEST(PhiloxReference, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(reference::philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(reference::philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(reference::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST_F(SampleTest, GreedyFindsTheMaximumAtEveryPosition) {
  const uint32_t rows = 3000;
  Sampler sampler({}, rows, 4, {});
  Random random(1);
  for (float& logit : sampler.logits()) logit = random.normal();
  for (uint32_t id = 0; id < rows; ++id) {
    const float before = std::exchange(sampler.logits()[id], 50.0f);
    ASSERT_EQ(sampler.draw(), id);
    sampler.logits()[id] = before;
  }
}

TEST_F(SampleTest, GreedyTakesTheLowestOfEquals) {
  const uint32_t rows = 3000;
  Sampler sampler({}, rows, 4, {});
  std::ranges::fill(sampler.logits(), -1.0f);
  ASSERT_EQ(sampler.draw(), 0u);  // all equal
  // Distances within a lane, between lanes, between rounds of a workgroup, and between workgroups.
  for (const uint32_t distance :
       {1u, 2u, 3u, 4u, 5u, 63u, 64u, 252u, 255u, 256u, 257u, 1020u, 1023u, 1024u, 1025u, 2048u})
    for (uint32_t id = 0; id + distance < rows; id += 1 + id % 37) {
      sampler.logits()[id] = sampler.logits()[id + distance] = 2;
      ASSERT_EQ(sampler.draw(), id) << "and " << id + distance;
      sampler.logits()[id] = sampler.logits()[id + distance] = -1;
    }
  std::ranges::fill(sampler.logits(), -0.0f);
  sampler.logits()[2999] = 0.0f;  // equal to -0
  EXPECT_EQ(sampler.draw(), 0u);
}

TEST_F(SampleTest, GreedyAroundTheWorkgroupsBorders) {
  for (const uint32_t rows : {1u, 2u, 3u, 5u, 255u, 257u, SAMPLE_ROWS - 1u, SAMPLE_ROWS + 0u, SAMPLE_ROWS + 1u,
                              2u * SAMPLE_ROWS, 64u * SAMPLE_ROWS + 1, 70000u}) {
    SCOPED_TRACE(rows);
    Sampler sampler({}, rows, 4, {});
    std::ranges::fill(sampler.logits(), -7.0f);
    std::vector<uint32_t> places = {0, rows - 1, rows / 2};
    for (uint32_t border = SAMPLE_ROWS; border < rows; border += SAMPLE_ROWS * 13)
      places.insert(places.end(), {border - 1, border});
    for (const uint32_t id : places) {
      sampler.logits()[id] = -6.5f;
      ASSERT_EQ(sampler.draw(), id);
      sampler.logits()[id] = -7;
    }
  }
}

TEST_F(SampleTest, LogitsThatAreNotFinite) {
  const uint32_t rows = 1100;
  Sampler sampler({}, rows, 4, {});
  for (const float inverse_temperature : {0.0f, 1.0f}) {
    sampler.params().inverse_temperature = inverse_temperature;
    for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
      std::ranges::fill(sampler.logits(), bad);
      sampler.restart(0, 1);
      EXPECT_EQ(sampler.draw(), kNobody) << bad;
      EXPECT_EQ(sampler.state().finished, FINISH_NOT_FINITE);
      EXPECT_EQ(sampler.state().end, 1u);
      EXPECT_EQ(sampler.history()[1], kPoison);
      for (const uint32_t only : {0u, 5u, 1023u, 1024u, 1099u}) {
        sampler.logits()[only] = -1e30f;
        EXPECT_EQ(sampler.draw(), only) << "the only finite one beside " << bad;
        sampler.logits()[only] = bad;
      }
    }
  }
  for (uint32_t id = 0; id < rows; ++id) sampler.logits()[id] = id % 3 == 0 ? NAN : static_cast<float>(id % 100);
  sampler.params().inverse_temperature = 0;
  EXPECT_EQ(sampler.draw(), reference::sample_greedy({sampler.logits().begin(), sampler.logits().end()}));
}

// Sampling adds noise that the reference computes in double precision; where two scores then differ by less than fp32's
// logarithms may, either may win.
TEST_F(SampleTest, SamplesWhatTheReferenceSamples) {
  for (const uint32_t rows : {1u, 3u, 65u, 1025u, 5000u}) {
    Sampler sampler({}, rows, 70000, {});
    sampler.params().inverse_temperature = 1;
    Random random(rows);
    for (float& logit : sampler.logits()) logit = random.normal() * 2;
    const std::vector<float> scores(sampler.logits().begin(), sampler.logits().end());
    uint32_t close = 0, others = 0;
    for (uint32_t i = 0; i < 200; ++i) {
      const uint64_t seed = i < 4 ? i : uint64_t{random.word()} << 32 | random.word();
      const uint32_t end = i % 3 ? 1 + random.below(69999) : 1 + i;
      sampler.params().seed_low = static_cast<uint32_t>(seed);
      sampler.params().seed_high = static_cast<uint32_t>(seed >> 32);
      const reference::Sample want = reference::sample_seeded(scores, std::vector<bool>(rows, true), seed, end);
      const uint32_t got = sampler.draw(end);
      if (want.lead < 1e-4) {
        ++close;
        EXPECT_TRUE(got == want.id || got == want.runner_up) << got;
      } else {
        EXPECT_EQ(got, want.id) << "seed " << seed << " end " << end << " lead " << want.lead;
      }
      others += want.id != reference::sample_greedy(scores);
    }
    EXPECT_LE(close, 2u);
    EXPECT_GE(others, rows > 1 ? 20u : 0u);  // choices are not greedy
  }
}

// Words at both ends of their range: v near 0 gives the largest noise, v near 1 the least, and all of it is finite.
TEST(GumbelReference, EndsOfTheRange) {
  EXPECT_NEAR(reference::gumbel(0), 33 * std::log(2), 1e-9);
  EXPECT_NEAR(reference::gumbel(0xffffffff), -std::log(33 * std::log(2)), 1e-9);
  EXPECT_NEAR(reference::gumbel(0x80000000), -std::log(std::log(2)), 1e-9);
}

// The noise itself, read off the candidates: one row a workgroup counts, the others are NaN.
TEST_F(SampleTest, NoiseIsExactAtBothEnds) {
  const uint32_t rows = 1024;
  Sampler sampler({}, rows, 20, {});
  sampler.params().inverse_temperature = 1;
  std::ranges::fill(sampler.logits(), NAN);
  // The most extreme of 40,960 noises, 100 at either end, and every 397th between.
  struct Extreme {
    double noise;
    uint64_t seed;
    uint32_t id;
  };
  std::vector<Extreme> list;
  for (uint64_t seed = 0; seed < 40; ++seed)
    for (uint32_t id = 0; id < rows; ++id) list.push_back({reference::noise(seed, 7, id), seed, id});
  std::ranges::sort(list, {}, &Extreme::noise);
  for (size_t i = 0; i < list.size(); i = i < 100 || i + 101 > list.size() ? i + 1 : i + 397) {
    sampler.params().seed_low = static_cast<uint32_t>(list[i].seed);
    sampler.logits()[list[i].id] = 0;
    ASSERT_EQ(sampler.draw(7), list[i].id);
    // -ln(w) is as wrong as w is, relatively, and w is at worst ln() of a number just below 31/32.
    ASSERT_NEAR(sampler.candidates()[0].score, list[i].noise, 0x1p-21 * 32 + 1e-6);
    sampler.logits()[list[i].id] = NAN;
  }
}

}  // namespace
}  // namespace weft::test
