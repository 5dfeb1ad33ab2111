#include "reference/penalize.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/filter.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class PenalizeTest : public GpuTest {};

std::vector<float> run_adjust(const std::vector<float>& logits, const std::vector<bool>& seen, float penalty,
                              float inverse_temperature, float soft_cap = 0,
                              const reference::Additions& additions = {}) {
  const auto device = open_device();
  const uint32_t rows = static_cast<uint32_t>(logits.size());
  abi::SampleParams params = {};
  params.repeat_penalty = penalty;
  params.inverse_temperature = inverse_temperature;
  params.soft_cap = soft_cap;
  params.presence_penalty = static_cast<float>(additions.presence);
  params.frequency_penalty = static_cast<float>(additions.frequency);
  params.biased = additions.biases.empty() ? 0 : 1;
  std::vector<uint32_t> words(TOKEN_FLAG_WORDS(rows), kPoison);  // what is not asked for must not be read
  std::fill_n(words.begin(), TOKEN_FLAG_COUNTS(rows), 0u);
  for (uint32_t id = 0; id < rows; ++id) words[id / 32] |= (seen[id] ? 1u : 0u) << (id % 32);
  std::ranges::copy(additions.counts, words.begin() + TOKEN_FLAG_COUNTS(rows));
  for (size_t id = 0; id < additions.biases.size(); ++id)
    words[TOKEN_FLAG_BIASES(rows) + id] = std::bit_cast<uint32_t>(additions.biases[id]);
  const Buffer sampling = upload(device, "params", std::vector{params}),
               token_flags = upload(device, "token flags", words);
  const Buffer in = upload(device, "logits", logits);
  const Buffer scores = share(device, "scores", std::vector<uint32_t>(ops::score_bytes(rows) / 4));
  std::fill_n(scores.as<uint32_t>(), stride_of(rows), kPoison);
  run_op(device, "penalize",
         [&](Recorder& recorder) { ops::penalize(recorder, sampling, sampling, token_flags, in, scores, {rows}); });
  std::vector<float> got(scores.as<float>(), scores.as<float>() + stride_of(rows));
  uint32_t peak = 0;  // as lib/narrowed.glsl has it
  for (uint32_t i = 0; i < rows; ++i)
    if (const uint32_t bits = std::bit_cast<uint32_t>(got[i]); std::isfinite(got[i]))
      peak = std::max(peak, bits >> 31 ? ~bits : bits | 0x80000000u);
  EXPECT_EQ(scores.as<uint32_t>()[stride_of(rows)], peak) << "where filter finds it";
  for (uint32_t i = rows; i < stride_of(rows); ++i) EXPECT_TRUE(is_poison(got[i])) << "[" << i << "] was written";
  got.resize(rows);
  return got;
}

TEST_F(PenalizeTest, PenaltyAndTemperature) {
  for (const uint32_t rows : {1u, 3u, 31u, 32u, 33u, 64u, 65u, 3000u})
    for (const float penalty : {1.0f, 1.1f, 1.8f, 0.5f})
      for (const float inverse_temperature : {0.0f, 1.0f, 1.25f, 10.0f}) {
        SCOPED_TRACE(std::to_string(rows) + " rows, penalty " + std::to_string(penalty) + ", inverse temperature " +
                     std::to_string(inverse_temperature));
        Random random(rows);
        const std::vector<float> logits = random.normals(rows, 5);
        std::vector<bool> seen(rows);
        for (uint32_t id = 0; id < rows; ++id) seen[id] = random.below(3) == 0;
        // A division (2.5 units in the last place), and two products.
        EXPECT_TRUE(close_to(run_adjust(logits, seen, penalty, inverse_temperature),
                             reference::penalize(logits, seen, penalty, inverse_temperature), 4 * kRounding));
      }
}

TEST_F(PenalizeTest, BiasPresenceAndFrequency) {
  for (const uint32_t rows : {1u, 33u, 3000u})
    for (const bool biased : {false, true})
      for (const float presence : {0.0f, 1.5f, -0.5f})
        for (const float frequency : {0.0f, 0.25f, -2.0f}) {
          SCOPED_TRACE(std::to_string(rows) + " rows, presence " + std::to_string(presence) + ", frequency " +
                       std::to_string(frequency) + (biased ? ", biased" : ""));
          Random random(rows);
          const std::vector<float> logits = random.normals(rows, 5);
          std::vector<bool> seen(rows);
          reference::Additions additions = {{}, std::vector<uint32_t>(rows), presence, frequency};
          if (biased) additions.biases = random.normals(rows, 20);
          for (uint32_t id = 0; id < rows; ++id) {
            additions.counts[id] = random.below(4) == 0 ? random.below(50) : 0;
            seen[id] = additions.counts[id] > 0 || random.below(9) == 0;
          }
          const std::vector<double> want = reference::penalize(logits, seen, 1.2, 1.25, 0, additions);
          std::vector<double> allowed(rows);
          for (uint32_t id = 0; id < rows; ++id)  // sums may cancel: rounding is relative to what goes in
            allowed[id] = 1.25 * 6 * kRounding *
                          (std::abs(logits[id]) * 1.2 + (biased ? std::abs(additions.biases[id]) : 0) +
                           std::abs(presence) + additions.counts[id] * std::abs(frequency));
          EXPECT_TRUE(close_to(run_adjust(logits, seen, 1.2f, 1.25f, 0, additions), want, allowed));
        }
}

TEST_F(PenalizeTest, SoftCaps) {
  Random random(7);
  std::vector<float> logits = random.normals(3000, 40);
  for (const float far : {1e-6f, 100.0f, 1e4f, 1e30f}) logits.insert(logits.end(), {far, -far});
  std::vector<bool> seen(logits.size());
  for (size_t id = 0; id < seen.size(); ++id) seen[id] = random.below(3) == 0;
  for (const float cap : {1.0f, 30.0f}) {
    const std::vector<double> want = reference::penalize(logits, seen, 1.5, 1.25, cap);
    const std::vector<double> allowed(want.size(), 1.5 * 1.25 * cap * 16 * kRounding);
    EXPECT_TRUE(close_to(run_adjust(logits, seen, 1.5f, 1.25f, cap), want, allowed)) << cap;
  }
}

TEST_F(PenalizeTest, GreedyWithoutPenaltyCopies) {
  Random random(5);
  const std::vector<float> logits = random.normals(500);
  EXPECT_EQ(run_adjust(logits, std::vector<bool>(500, true), 1, 0), logits);
}

TEST_F(PenalizeTest, WhatIsNotFiniteStaysSo) {
  const std::vector<float> logits = {NAN, INFINITY, -INFINITY, 1, NAN, INFINITY, -INFINITY, 1};
  const std::vector<bool> seen = {false, false, false, false, true, true, true, true};
  for (const float soft_cap : {0.0f, 30.0f}) {
    const std::vector<float> scores = run_adjust(logits, seen, 1.5f, 2, soft_cap);
    for (size_t id = 0; id < logits.size(); ++id) EXPECT_EQ(std::isfinite(scores[id]), std::isfinite(logits[id])) << id;
  }
}

}  // namespace
}  // namespace weft::test
