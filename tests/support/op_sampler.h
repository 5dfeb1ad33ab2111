// The buffers that choosing a token touches, all mapped, and command buffers over them that tests replay.
#pragma once

#include "support/op_inputs.h"

namespace weft::test {

class Sampler {
 public:
  // Stages of a replay, in this order.
  struct Stages {
    bool penalize = false, filter = false;  // sample and advance always run; filter needs penalize
    uint32_t repeat = 1;                    // times, one after the other in one command buffer
  };
  Sampler(const Tuning& tuning, uint32_t rows, uint32_t context, const Stages& stages);

  abi::StepState& state() { return *state_.as<abi::StepState>(); }
  abi::SampleParams& params() { return *params_.as<abi::SampleParams>(); }
  std::span<float> logits() { return {logits_.as<float>(), rows_}; }
  // Input of sample: the same as the logits unless the stages penalize them.
  std::span<float> scores() { return {scores_ ? scores_.as<float>() : logits_.as<float>(), rows_}; }
  std::span<uint32_t> history() { return {history_.as<uint32_t>(), context_}; }
  std::span<uint32_t> token_flags() { return {token_flags_.as<uint32_t>(), TOKEN_FLAG_WORDS(rows_)}; }  // abi.h
  std::span<abi::RingEntry> ring() { return {ring_.as<abi::RingEntry>(), RING}; }
  std::span<abi::Candidate> candidates() { return {candidates_.as<abi::Candidate>(), ops::candidate_count(rows_)}; }

  void restart(uint32_t pos, uint32_t end);  // forgets what was sampled
  void run();                                // one replay
  // Restarts at (0, 1), runs, and returns the id in the ring, checked against the history; kNobody if the draw failed.
  uint32_t draw(uint32_t end = 1);

 private:
  uint32_t rows_, context_;
  std::shared_ptr<Device> device_;
  CommandPool pool_;
  Fence fence_;
  Buffer state_, params_, logits_, scores_, history_, token_flags_, ring_, candidates_;
  CommandBuffer commands_;
};

// Parameters that change nothing: greedy, no filter, no penalty, no stop id.
abi::SampleParams no_sampling();

}  // namespace weft::test
