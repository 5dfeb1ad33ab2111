// One pass that computes the next token of each of several sessions over the same model: their products and projections
// read the weights once for all of them; each has its own position, cache and way to choose.
#pragma once

#include <span>
#include <vector>

#include "model/schedule.h"

namespace weft {

inline constexpr uint32_t kMostLanes = 64;

class Batch {
 public:
  // A session's part: its buffers, which outlive the batch, and how it chooses.
  struct Lane {
    const StepBuffers& step;
    const KvCache& cache;
    Tail tail;
  };
  // 1 to kMostLanes lanes of a decoder. Records the pass.
  Batch(const Model& model, std::span<const Lane> lanes, Policy policy);
  ~Batch();

  // Submits one pass after those in flight, as the policy says.
  void submit() { flights_.submit(body_, end_); }
  uint32_t run_ahead() const { return flights_.run_ahead(); }
  uint32_t in_flight() const { return flights_.count(); }
  void wait_oldest() { flights_.wait_oldest(); }

 private:
  uint32_t rows_;  // of the activations: as many as lanes, or more
  Activations activations_;
  StepBuffers step_;
  CommandPool pool_;
  std::vector<CommandBuffer> body_;
  CommandBuffer end_;
  Flights flights_;
};

}  // namespace weft
