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
  // load_layer(layer) returns when the layer is on the device. If it throws, loading stops, and wait() calls for layers
  // that are not loaded rethrow it. The function is destroyed as soon as the last layer is loaded.
  LayerLoader(uint32_t layers, std::function<void(uint32_t layer)> load_layer);
  ~LayerLoader();  // stops after the current layer
  LayerLoader(const LayerLoader&) = delete;
  LayerLoader& operator=(const LayerLoader&) = delete;

  // Returns once so many layers (at most all) are loaded: the number of loaded layers, or SIZE_MAX for all.
  size_t wait(size_t layers) const;

 private:
  void run(std::function<void(uint32_t layer)> load_layer) noexcept;

  const uint32_t layers_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  uint32_t loaded_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace weft
