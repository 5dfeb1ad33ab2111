#include "model/arrival.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace weft {

Arrival::Arrival(uint32_t layers, std::function<void(uint32_t layer)> bring) : layers_(layers) {
  try {
    thread_ = std::thread([this, bring]() mutable { run(std::move(bring)); });
  } catch (const std::system_error&) {  // the system has no thread left
    run(std::move(bring));
  }
}

Arrival::~Arrival() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Arrival::run(std::function<void(uint32_t layer)> bring) noexcept {
  for (uint32_t layer = 0; layer < layers_ && !stop_; ++layer) {
    std::exception_ptr error;
    try {
      bring(layer);
    } catch (...) {
      error = std::current_exception();
    }
    if (layer + 1 == layers_) bring = nullptr;  // before anybody goes on: what it held is free then
    const std::lock_guard lock(mutex_);
    error_ = error;
    if (!error) ++there_;
    changed_.notify_all();
    if (error) return;
  }
}

size_t Arrival::wait(size_t layers) const {
  std::unique_lock lock(mutex_);
  const size_t wanted = std::min<size_t>(layers, layers_);
  changed_.wait(lock, [&] { return there_ >= wanted || error_; });
  if (there_ < wanted) std::rethrow_exception(error_);
  return there_ == layers_ ? SIZE_MAX : there_;
}

}  // namespace weft
