// One pass that computes the next token of each of several sessions over the same model. Products and projections read
// the weights once for all of them. Each session has its own position, cache and sampling.
#pragma once

#include <span>
#include <vector>

#include "model/schedule.h"

namespace weft {

inline constexpr uint32_t kMostBatchSlots = 64;

class Batch {
 public:
  // A session's part: its buffers, which outlive the batch, and what follows its layers.
  struct Member {
    const StepBuffers& step;
    const KvCache& cache;
    Tail tail;
  };
  // Records the pass, of 1 to kMostBatchSlots sessions of a decoder. duties: as of a SubmissionQueue.
  Batch(const Model& model, std::span<const Member> members, Policy policy, std::vector<Duty*> duties);
  ~Batch();

  // Submits one pass after those in flight, as the policy says.
  void submit() { queue_.submit(body_, end_); }
  uint32_t run_ahead() const { return queue_.run_ahead(); }
  uint32_t in_flight() const { return queue_.count(); }
  void wait_oldest() { queue_.wait_oldest(); }

 private:
  uint32_t rows_;  // of the activations: at least the number of members
  ActivationBuffers activations_;
  StepBuffers step_;
  CommandPool pool_;
  std::vector<CommandBuffer> body_;
  CommandBuffer end_;
  SubmissionQueue queue_;
};

}  // namespace weft
