#include "model/layer_loader.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace weft {

LayerLoader::LayerLoader(uint32_t layers, std::function<void(uint32_t layer)> load_layer) : layers_(layers) {
  try {
    thread_ = std::thread([this, load_layer]() mutable { run(std::move(load_layer)); });
  } catch (const std::system_error&) {  // the system has no more threads
    run(std::move(load_layer));
  }
}

LayerLoader::~LayerLoader() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void LayerLoader::run(std::function<void(uint32_t layer)> load_layer) noexcept {
  for (uint32_t layer = 0; layer < layers_ && !stop_; ++layer) {
    std::exception_ptr error;
    try {
      load_layer(layer);
    } catch (...) {
      error = std::current_exception();
    }
    if (layer + 1 == layers_) load_layer = nullptr;  // before any wait() returns: what it holds is free then
    const std::lock_guard lock(mutex_);
    error_ = error;
    if (!error) ++loaded_;
    changed_.notify_all();
    if (error) return;
  }
}

size_t LayerLoader::wait(size_t layers) const {
  std::unique_lock lock(mutex_);
  const size_t wanted = std::min<size_t>(layers, layers_);
  changed_.wait(lock, [&] { return loaded_ >= wanted || error_; });
  if (loaded_ < wanted) std::rethrow_exception(error_);
  return loaded_ == layers_ ? SIZE_MAX : loaded_;
}

}  // namespace weft
