// Loads the layers of a model that is already in use.
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

// Loads layers in order, on a thread of its own, while passes already run through the layers that are there. wait() may
// be called from any thread.
class LayerLoader {
 public:
  // load_layer(layer) returns when the layer is on the device. If it throws, loading stops; wait() calls for layers
  // that are not loaded throw that once, and the next one begins again at that layer. The function is destroyed as soon
  // as the last layer is loaded.
  LayerLoader(uint32_t layers, std::function<void(uint32_t layer)> load_layer);
  ~LayerLoader();  // stops after the current layer
  LayerLoader(const LayerLoader&) = delete;
  LayerLoader& operator=(const LayerLoader&) = delete;

  // Waits until `layers` layers (at most all) are loaded. Returns the number of loaded layers, or SIZE_MAX for all.
  size_t wait(size_t layers);

 private:
  void start();
  void restart(std::unique_lock<std::mutex>& lock);
  void run() noexcept;

  const uint32_t layers_;
  std::function<void(uint32_t layer)> load_layer_;  // of the thread, while it runs
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t loaded_ = 0;
  std::exception_ptr error_;  // why the thread has ended
  bool thrown_ = false;       // error_, by a wait()
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace weft
