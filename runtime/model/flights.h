// How passes over the network are submitted, and how many are in flight.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device.h"
#include "gpu/recorder.h"
#include "model/model.h"

namespace weft {

enum class Policy {
  throughput,  // a whole pass a submission, and the plan's run_ahead passes behind it
  polite,      // a layer or two a submission, at most two in flight, and no pass before the one before it has ended
};

// A pass is a list of command buffers: the embedding, each layer, what follows them. One thread at a time.
class Flights {
 public:
  Flights(const Model& model, Policy policy);  // the model outlives it

  // Behind those in flight. pieces: of a polite submission, command buffers. Waits while as many submissions are in
  // flight as the policy lets. While the model's layers are still arriving, a pass is submitted as far as they have,
  // and waits for the next one; throws what kept that away.
  void submit(const std::vector<const CommandBuffer*>& pass, size_t pieces);
  uint32_t run_ahead() const { return run_ahead_; }  // passes behind the one that is waited for
  uint32_t count() const { return passes_; }         // passes in flight, the last submissions of which are
  void wait_oldest();                                // pass
  void wait_all();

  uint64_t submissions() const { return submissions_; }      // since the beginning
  size_t most_in_flight() const { return most_in_flight_; }  // submissions that ever were at once

 private:
  struct Flight {
    std::unique_ptr<Fence> fence;
    bool last;  // of its pass
  };
  void launch(const std::vector<const CommandBuffer*>& commands, bool last);
  void land();

  std::shared_ptr<Device> device_;
  Policy policy_;
  std::mutex*
      order_;  // held while the submissions of a pass are made, so that no other's come between; nullptr: they may
  const Arrival* arrival_;  // nullptr: all layers are there
  uint32_t run_ahead_;
  std::vector<std::unique_ptr<Fence>> idle_;
  std::deque<Flight> flying_;
  uint32_t passes_ = 0;
  uint64_t submissions_ = 0;
  size_t most_in_flight_ = 0;
};

}  // namespace weft
