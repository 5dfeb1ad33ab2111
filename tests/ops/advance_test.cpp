#include "reference/advance.h"

#include <algorithm>

#include "support/op_sampler.h"

namespace weft::test {
namespace {

class AdvanceTest : public GpuTest {};

// Advances on the device and in the reference, side by side.
class Pair {
 public:
  Pair(uint32_t rows, uint32_t context, uint32_t pos, uint32_t end, std::vector<uint32_t> stop_ids = {})
      : sampler_({}, rows, context, {}), device_(open_device()), stop_ids_(std::move(stop_ids)) {
    sampler_.restart(pos, end);
    sampler_.params().stop_count = static_cast<uint32_t>(stop_ids_.size());
    std::ranges::copy(stop_ids_, sampler_.params().stop_ids);
    step_ = {pos,
             end,
             context,
             reference::Finish::running,
             std::vector<uint32_t>(context, kPoison),
             std::vector<bool>(rows),
             std::vector<uint32_t>(rows)};
    ring_.assign(RING, {kPoison, kPoison});
  }

  // Samples id: its logit becomes the greatest. kNobody: no logit is finite.
  void append(uint32_t id) {
    const bool nobody = id == 0xffffffff;
    std::ranges::fill(sampler_.logits(), nobody ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
    if (!nobody) sampler_.logits()[id] = 1;
    sampler_.run();
    if (step_.finished == reference::Finish::running) {
      const uint32_t slot = step_.end % RING;
      reference::append(step_, id, stop_ids_);
      ring_[slot] = {id, static_cast<uint32_t>(step_.finished)};
    }
    compare();
  }

  void compare() {
    const abi::StepState& state = sampler_.state();
    EXPECT_EQ(state.pos, step_.pos);
    EXPECT_EQ(state.end, step_.end);
    EXPECT_EQ(state.context, step_.context);
    EXPECT_EQ(state.finished, static_cast<uint32_t>(step_.finished));
    EXPECT_TRUE(std::ranges::equal(sampler_.history(), step_.history));
    for (size_t id = 0; id < step_.seen.size(); ++id)
      EXPECT_EQ((sampler_.token_flags()[id / 32] >> (id % 32) & 1) != 0, step_.seen[id]) << "seen " << id;
    const uint32_t* const counts = &sampler_.token_flags()[TOKEN_FLAG_COUNTS(static_cast<uint32_t>(step_.seen.size()))];
    EXPECT_TRUE(std::equal(step_.counts.begin(), step_.counts.end(), counts));
    for (uint32_t i = 0; i < RING; ++i) {
      EXPECT_EQ(sampler_.ring()[i].id, ring_[i].id) << "ring " << i;
      EXPECT_EQ(sampler_.ring()[i].flags, ring_[i].flags) << "ring " << i;
    }
  }

  const reference::Step& step() const { return step_; }

 private:
  Sampler sampler_;
  std::shared_ptr<Device> device_;
  std::vector<uint32_t> stop_ids_;
  reference::Step step_;
  std::vector<abi::RingEntry> ring_;
};

TEST_F(AdvanceTest, FortyTokensAroundTheRing) {
  Pair pair(100, 64, 0, 5);
  Random random(1);
  for (int i = 0; i < 40; ++i) pair.append(random.below(100));
  EXPECT_EQ(pair.step().end, 45u);
}

TEST_F(AdvanceTest, FullContextFinishes) {
  Pair pair(40, 12, 8, 9);
  for (const uint32_t id : {0u, 31u, 32u, 7u, 8u}) pair.append(id);
  EXPECT_EQ(pair.step().finished, reference::Finish::context);
  EXPECT_EQ(pair.step().end, 12u);
}

TEST_F(AdvanceTest, StopIdsFinishAndStay) {
  std::vector<uint32_t> stops(MAX_STOP_IDS);
  for (uint32_t i = 0; i < MAX_STOP_IDS; ++i) stops[i] = 100 + i * 3;
  for (const uint32_t stop : {stops.front(), stops[7], stops.back()}) {
    Pair pair(200, 32, 0, 1, stops);
    for (const uint32_t id : {5u, 101u, stop, 6u, 7u}) pair.append(id);
    EXPECT_EQ(pair.step().finished, reference::Finish::stop);
    EXPECT_EQ(pair.step().end, 4u);
  }
  Pair last(200, 2, 0, 1, {5});  // the stop id fills the context: it was a stop
  last.append(5);
  EXPECT_EQ(last.step().finished, reference::Finish::stop);
}

TEST_F(AdvanceTest, NothingFiniteFinishes) {
  Pair pair(40, 12, 3, 4);
  pair.append(2);
  pair.append(0xffffffff);
  EXPECT_EQ(pair.step().finished, reference::Finish::not_finite);
  EXPECT_EQ(pair.step().end, 5u);
  pair.append(3);
}

// Prompt chunks only move: with 0 candidates, nothing but the position changes.
TEST_F(AdvanceTest, PromptChunksMoveOn) {
  const auto device = open_device();
  const Buffer state = make_state(device, 0, 19, 64);
  const Buffer params = upload(device, "params", std::vector{no_sampling()});
  const Buffer history = poisoned(device, "history", 64), token_flags = poisoned(device, "token flags", 4);
  const Buffer ring = poisoned(device, "ring", RING * sizeof(abi::RingEntry) / 4),
               candidates = poisoned(device, "candidates", 2);
  reference::Step step = {0, 19, 64, reference::Finish::running, {}, {}, {}};
  for (int i = 0; i < 4; ++i) {
    run_op(device, "advance", [&](Recorder& recorder) {
      ops::advance(recorder, {state, params, candidates, history, token_flags, ring, 1}, 0, 8);
    });
    reference::advance(step, 8);
    EXPECT_EQ(state.as<abi::StepState>()->pos, step.pos);
  }
  EXPECT_EQ(step.pos, 19u);
  for (const Buffer* buffer : {&history, &token_flags, &ring})
    for (const uint32_t word : download_as<uint32_t>(device, *buffer)) ASSERT_EQ(word, kPoison) << buffer->name();
}

}  // namespace
}  // namespace weft::test
