#include "model/layer_loader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/signals.h"

namespace weft {

LayerLoader::LayerLoader(uint32_t layers, std::function<void(uint32_t layer)> load_layer)
    : layers_(layers), load_layer_(std::move(load_layer)) {
  try {
    start();
  } catch (const std::system_error&) {  // the system has no more threads
    run();
  }
}

LayerLoader::~LayerLoader() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void LayerLoader::start() {
  if (thread_.joinable()) thread_.join();
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

// Begins again after an error that was thrown. The thread has ended, or is about to.
void LayerLoader::restart(std::unique_lock<std::mutex>& lock) {
  bool on_thread = true;
  try {
    start();
  } catch (const std::system_error&) {
    on_thread = false;
  }
  error_ = nullptr;
  thrown_ = false;
  if (on_thread) return;
  lock.unlock();
  run();
  lock.lock();
}

void LayerLoader::run() noexcept {
  for (uint32_t layer = loaded_; layer < layers_ && !stop_; ++layer) {
    std::exception_ptr error;
    try {
      load_layer_(layer);
    } catch (...) {
      error = std::current_exception();
    }
    if (!error && layer + 1 == layers_) load_layer_ = nullptr;  // before any wait() returns: what it holds is free then
    const std::lock_guard lock(mutex_);
    error_ = error;
    if (!error) ++loaded_;
    changed_.notify_all();
    if (error) return;
  }
}

size_t LayerLoader::wait(size_t layers) {
  std::unique_lock lock(mutex_);
  const size_t wanted = std::min<size_t>(layers, layers_);
  if (loaded_ < wanted && error_ && thrown_) restart(lock);
  changed_.wait(lock, [&] { return loaded_ >= wanted || error_; });
  if (loaded_ < wanted) {
    thrown_ = true;
    std::rethrow_exception(error_);
  }
  return loaded_ == layers_ ? SIZE_MAX : loaded_;
}

}  // namespace weft
