#include <algorithm>
#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class BestTest : public GpuTest {};

std::vector<abi::Guess> run_best(const std::shared_ptr<Device>& device, const std::vector<abi::Candidate>& candidates,
                                 uint32_t stride, uint32_t count, uint32_t states) {
  const Buffer from = upload(device, "candidates", candidates);
  const Buffer to(device, "guesses", states * sizeof(abi::Guess), Memory::device);
  run_op(device, "best", [&](Recorder& recorder) { ops::best(recorder, from, stride, count, to, states); });
  return download_as<abi::Guess>(device, to);
}

// Values between two states' candidates would win if they were read.
TEST_F(BestTest, TheBestOfEachStateAndItsShare) {
  const auto device = open_device();
  for (const uint32_t count : {1u, 2u, 63u, 64u, 65u, 1000u})
    for (const uint32_t states : {1u, 3u, 7u}) {
      SCOPED_TRACE(std::to_string(states) + " states of " + std::to_string(count));
      const uint32_t stride = count + 5;
      Random random(count + states);
      std::vector<abi::Candidate> candidates(size_t{states} * stride, {1000, 77});
      for (uint32_t s = 0; s < states; ++s)
        for (uint32_t i = 0; i < count; ++i) candidates[s * stride + i] = {random.normal() * 3, 10 * i + s};
      const std::vector<abi::Guess> got = run_best(device, candidates, stride, count, states);
      for (uint32_t s = 0; s < states; ++s) {
        const auto own = std::span(candidates).subspan(s * stride, count);
        const auto& want = *std::ranges::max_element(own, {}, &abi::Candidate::score);
        double sum = 0;
        for (const abi::Candidate& one : own) sum += std::exp(double{one.score} - want.score);
        EXPECT_EQ(got[s].id, want.id);
        EXPECT_NEAR(got[s].share, 1 / sum, 1e-5 / sum);
      }
    }
}

TEST_F(BestTest, TheLowestIdAmongEquals) {
  const auto device = open_device();
  std::vector<abi::Candidate> candidates;
  for (uint32_t i = 0; i < 200; ++i) candidates.push_back({i % 50 == 7 ? 2.0f : 1.0f, 1000 - i});
  const std::vector<abi::Guess> got = run_best(device, candidates, 200, 200, 1);
  EXPECT_EQ(got[0].id, 1000u - 157);
}

// project_best leaves this where a workgroup's logits are not finite.
TEST_F(BestTest, NoFiniteLogit) {
  const auto device = open_device();
  const std::vector<abi::Candidate> none(100, {-3.4e38f, 0xffffffffu});
  const std::vector<abi::Guess> got = run_best(device, none, 100, 100, 1);
  EXPECT_EQ(got[0].id, 0xffffffffu);
  EXPECT_EQ(got[0].share, 0);
}

TEST_F(BestTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer small(device, "small", 64, Memory::device), large(device, "large", 4096, Memory::device);
  const auto run = [&](const Buffer& from, uint32_t stride, const Buffer& to) {
    run_op(device, "best", [&](Recorder& recorder) { ops::best(recorder, from, stride, 100, to, 5); });
  };
  EXPECT_THROW(run(large, 99, large), Error);
  EXPECT_THROW(run(small, 100, large), Error);
  const Buffer tiny(device, "tiny", 32, Memory::device);
  EXPECT_THROW(run(large, 100, tiny), Error);
}

}  // namespace
}  // namespace weft::test
