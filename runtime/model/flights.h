// Submissions in flight: at most so many, in order.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "gpu/device.h"
#include "gpu/recorder.h"

namespace weft {

class Flights {
 public:
  Flights(std::shared_ptr<Device> device, uint32_t most) : device_(std::move(device)) {
    for (uint32_t i = 0; i < most; ++i) idle_.push_back(std::make_unique<Fence>(device_));
  }

  // Behind those in flight; waits for the oldest when there are `most`.
  void submit(const std::vector<const CommandBuffer*>& commands) {
    if (idle_.empty()) wait_oldest();
    device_->submit(commands, *idle_.back());
    flying_.push_back(std::move(idle_.back()));
    idle_.pop_back();
  }
  uint32_t count() const { return static_cast<uint32_t>(flying_.size()); }
  void wait_oldest() {
    flying_.front()->wait();
    idle_.push_back(std::move(flying_.front()));
    flying_.pop_front();
  }
  void wait_all() {
    while (!flying_.empty()) wait_oldest();
  }

 private:
  std::shared_ptr<Device> device_;
  std::vector<std::unique_ptr<Fence>> idle_;
  std::deque<std::unique_ptr<Fence>> flying_;
};

}  // namespace weft
