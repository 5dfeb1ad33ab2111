// Layers of a model that is used before the last of them is there.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace weft {

// Brings layers in order, on a thread of its own, while passes already go through those that are there. wait() may be
// called from any thread.
class Arrival {
 public:
  // bring(layer) returns when the layer is on the device. What it throws is the last thing it does, and what every
  // wait for a layer that is not there throws from then on; without any, it is let go as soon as it has brought the
  // last layer.
  Arrival(uint32_t layers, std::function<void(uint32_t layer)> bring);
  ~Arrival();  // gives up behind the layer at hand, which it waits for
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  // Returns once so many layers (at most all) are there, with the number that are; SIZE_MAX for all of them.
  size_t wait(size_t layers) const;

 private:
  void run(std::function<void(uint32_t layer)> bring) noexcept;

  const uint32_t layers_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint32_t there_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // uses the others. No std::jthread: libc++ 19 has none
};

}  // namespace weft
