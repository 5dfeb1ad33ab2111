// How passes over the network are submitted, and how many are in flight.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "gpu/device.h"
#include "gpu/recorder.h"
#include "model/model.h"
#include "run/duty.h"
#include "run/submission_bound.h"

namespace weft {

enum class Policy {
  throughput,  // a whole pass in a submission, and the plan's run_ahead passes after it; less of both where the plan
               // bounds a submission's time (submission_ms)
  polite,      // a layer or two in a submission, at most two in flight
};

// A pass is a list of command buffers: the embedding, each layer, and an end.
struct RecordedPass {
  std::vector<CommandBuffer> body;  // the embedding and the layers
  CommandBuffer end;
};

// One thread at a time.
class SubmissionQueue {
 public:
  // duties: whose work it is, if that may be limited: while one of them is, each submission waits until all of them
  // allow it, and for its own end. While one has a limit together with others, the policy is polite. The model and the
  // duties outlive this.
  SubmissionQueue(const Model& model, Policy policy, std::vector<Duty*> duties = {});

  // Submits a pass of `tokens` tokens after those in flight. body: the embedding and the layers; none: `end` is the
  // whole pass, or, with 0 tokens, other work. pieces: command buffers in one polite submission. Waits while the policy
  // allows no more submissions in flight. While the model's layers are still being loaded, submits the part whose
  // layers are there, then waits for the next layer; throws if that cannot be loaded. Waits for command buffers that
  // are still in flight: Vulkan allows no second submission of them.
  void submit(uint32_t tokens, std::span<const CommandBuffer> body, const CommandBuffer& end, size_t pieces = 1);
  void submit(uint32_t tokens, const RecordedPass& pass, size_t pieces = 1) {
    submit(tokens, pass.body, pass.end, pieces);
  }
  // True if a pass of so many tokens may be a single command buffer: the policy submits whole passes, the plan's bound
  // has room for it, and all layers are on the device.
  bool takes_whole_passes(uint32_t tokens);
  // Passes that may follow the one that is waited for. None where the last one was cut: it takes so long that the
  // host's work between two does not count.
  uint32_t run_ahead() const { return was_cut_ || polite() ? 0 : run_ahead_; }
  uint32_t count() const { return passes_; }  // passes whose last submission is in flight
  uint32_t most_in_flight_passes() const { return run_ahead_ + 1; }
  bool in_flight(const CommandBuffer& commands) const;  // false only if it has been waited for
  void wait_oldest();                                   // pass
  void drain();

  uint64_t submissions() const { return submissions_; }      // since the beginning
  size_t most_in_flight() const { return most_in_flight_; }  // submissions in flight at once, so far

 private:
  using Clock = Duty::Clock;
  struct Submission {
    std::unique_ptr<Fence> fence;
    bool last;  // of its pass
    uint32_t tokens;
    size_t buffers;  // those of a whole pass, if it is one in a single buffer
    Clock::time_point begin;
    std::vector<CommandBuffer> commands;
  };
  bool polite() const;
  bool limited() const;
  void pause();
  void launch(const std::vector<const CommandBuffer*>& commands, Submission submission);
  void wait(const Submission& submission);
  void retire();
  size_t parts() const { return weights_.layers.size() + 2; }  // command buffers of a pass

  std::shared_ptr<Device> device_;
  Policy policy_;
  std::vector<Duty*> duties_;
  const Weights& weights_;
  LayerLoader* layer_loader_;  // nullptr: all layers are there
  uint32_t run_ahead_, most_;  // most_: submissions in flight, by the policy
  SubmissionBound bound_;
  bool was_cut_ = false;  // the last pass, by the bound
  std::vector<std::unique_ptr<Fence>> idle_fences_;
  std::vector<Submission> in_flight_;  // oldest first; room for all fences, so that none is lost on its way
  uint32_t passes_ = 0;
  uint64_t submissions_ = 0;
  size_t most_in_flight_ = 0;
};

}  // namespace weft
