#include <algorithm>
#include <array>
#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class BestTest : public GpuTest {};

constexpr uint32_t kRanks = 4;

// The guesses from logits (states, rows), after sample has left the candidates of each state.
std::vector<abi::Guess> run_best(const std::shared_ptr<Device>& device, const std::vector<std::vector<float>>& logits) {
  const uint32_t states = static_cast<uint32_t>(logits.size()), rows = static_cast<uint32_t>(logits[0].size());
  const uint32_t stride = (ops::candidate_count(rows) + 31) / 32 * 32;
  std::vector<float> padded(size_t{states} * stride_of(rows), 1e9f);  // what lies between would win if it were read
  for (uint32_t s = 0; s < states; ++s) std::ranges::copy(logits[s], padded.begin() + s * stride_of(rows));
  const Buffer from = upload(device, "logits", padded), state = make_state(device, 0, 1, 64);
  const Buffer candidates = poisoned(device, "candidates", uint64_t{states} * stride * 2);
  const Buffer params = share(device, "params", std::vector<abi::SampleParams>(1));
  const Buffer to(device, "guesses", states * kRanks * sizeof(abi::Guess), Memory::device);
  run_op(device, "sample, best", [&](Recorder& recorder) {
    for (uint32_t s = 0; s < states; ++s)
      ops::sample(recorder, state, params, View(from).part(uint64_t{s} * stride_of(rows) * 4, stride_of(rows) * 4),
                  View(candidates).part(uint64_t{s} * stride * 8, stride * 8), {rows});
    ops::best(recorder, from, rows, candidates, stride, to, states, kRanks);
  });
  return download_as<abi::Guess>(device, to);
}

// Against a sort in double precision. The best rows are far apart, or in one group, or both.
TEST_F(BestTest, TheBestOfEachStateAndTheirShares) {
  const auto device = open_device();
  for (const uint32_t rows : {1u, 2u, 63u, 1024u, 1025u, 5000u})
    for (const uint32_t states : {1u, 3u, 7u}) {
      SCOPED_TRACE(std::to_string(states) + " states of " + std::to_string(rows));
      Random random(rows + states);
      std::vector<std::vector<float>> logits;
      for (uint32_t s = 0; s < states; ++s) {
        logits.push_back(random.normals(rows, 3));
        for (uint32_t i = 0; i < s; ++i) logits[s][random.below(std::min(rows, 100 + i * 1000))] += 12;
        if (rows > 100) logits[s][50] = -INFINITY, logits[s][60] = NAN;
      }
      const std::vector<abi::Guess> got = run_best(device, logits);
      for (uint32_t s = 0; s < states; ++s) {
        std::vector<uint32_t> order;
        for (uint32_t i = 0; i < rows; ++i)
          if (std::isfinite(logits[s][i])) order.push_back(i);
        std::ranges::stable_sort(order, std::ranges::greater(), [&](uint32_t i) { return logits[s][i]; });
        const double highest = logits[s][order[0]];
        double mass = 0;  // of the best row's group, and of the best of each other one
        std::vector<bool> counted(ops::candidate_count(rows));
        for (const uint32_t i : order) {
          const uint32_t group = i / SAMPLE_ROWS;
          if (group == order[0] / SAMPLE_ROWS || !counted[group]) mass += std::exp(logits[s][i] - highest);
          counted[group] = true;
        }
        for (uint32_t rank = 0; rank < kRanks; ++rank) {
          const abi::Guess& one = got[s * kRanks + rank];
          if (rank >= order.size()) {
            EXPECT_EQ(one.id, 0xffffffffu);
            EXPECT_EQ(one.share, 0);
            continue;
          }
          const double share = std::exp(logits[s][order[rank]] - highest) / mass;
          EXPECT_EQ(one.id, order[rank]) << rank;
          EXPECT_NEAR(one.share, share, 1e-4 * share) << rank;
        }
      }
    }
}

TEST_F(BestTest, TheLowestIdAmongEquals) {
  const auto device = open_device();
  std::vector<float> logits(3000, 1);
  for (const uint32_t id : {2900u, 2077u, 1500u, 7u}) logits[id] = 2;
  const std::vector<abi::Guess> got = run_best(device, {logits});
  for (const uint32_t rank : {0u, 1u, 2u, 3u}) EXPECT_EQ(got[rank].id, (std::array{7u, 1500u, 2077u, 2900u})[rank]);
}

TEST_F(BestTest, NoFiniteLogit) {
  const auto device = open_device();
  for (const abi::Guess& one : run_best(device, {std::vector<float>(2000, -INFINITY), std::vector<float>(2000, NAN)})) {
    EXPECT_EQ(one.id, 0xffffffffu);
    EXPECT_EQ(one.share, 0);
  }
}

TEST_F(BestTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer large(device, "large", 1 << 16, Memory::device), tiny(device, "tiny", 32, Memory::device);
  const auto run = [&](const Buffer& logits, const Buffer& candidates, uint32_t stride, const Buffer& to) {
    run_op(device, "best",
           [&](Recorder& recorder) { ops::best(recorder, logits, 2000, candidates, stride, to, 5, 4); });
  };
  EXPECT_NO_THROW(run(large, large, 2, large));
  EXPECT_THROW(run(large, large, 1, large), Error);
  EXPECT_THROW(run(tiny, large, 2, large), Error);
  EXPECT_THROW(run(large, tiny, 2, large), Error);
  EXPECT_THROW(run(large, large, 2, tiny), Error);
}

}  // namespace
}  // namespace weft::test
