#include "model/flights.h"

#include <algorithm>

namespace weft {

Flights::Flights(const Model& model, Policy policy)
    : device_(model.device),
      policy_(policy),
      order_(model.weights.stream ? &model.weights.stream->order : nullptr),
      arrival_(model.weights.arrival.get()),
      run_ahead_(policy == Policy::throughput ? device_->plan().run_ahead : 0) {
  const uint32_t most = policy == Policy::throughput ? run_ahead_ + 1 : 2;
  for (uint32_t i = 0; i < most; ++i) idle_.push_back(std::make_unique<Fence>(device_));
}

void Flights::submit(std::span<const CommandBuffer> body, const CommandBuffer& end, size_t pieces) {
  const std::unique_lock<std::mutex> lock = order_ ? std::unique_lock(*order_) : std::unique_lock<std::mutex>();
  std::vector<const CommandBuffer*> pass;
  for (const CommandBuffer& commands : body) pass.push_back(&commands);
  pass.push_back(&end);
  const size_t most = policy_ == Policy::throughput ? pass.size() : pieces;
  for (size_t first = 0, last = 0; first < pass.size(); first = last) {
    last = std::min(first + most, pass.size());
    // The first command buffer of a pass is the embedding: number i needs i layers, at most all.
    if (arrival_) last = std::min(last - 1, arrival_->wait(first)) + 1;
    launch({pass.begin() + static_cast<ptrdiff_t>(first), pass.begin() + static_cast<ptrdiff_t>(last)},
           last == pass.size());
  }
}

void Flights::launch(const std::vector<const CommandBuffer*>& commands, bool last) {
  if (idle_.empty()) land();
  device_->submit(commands, *idle_.back());
  flying_.push_back({std::move(idle_.back()), last});
  idle_.pop_back();
  passes_ += last;
  ++submissions_;
  most_in_flight_ = std::max(most_in_flight_, flying_.size());
}

void Flights::land() {
  flying_.front().fence->wait();
  passes_ -= flying_.front().last;
  idle_.push_back(std::move(flying_.front().fence));
  flying_.pop_front();
}

void Flights::wait_oldest() {
  for (const uint32_t before = passes_; passes_ == before;) land();
}

void Flights::wait_all() {
  while (!flying_.empty()) land();
}

}  // namespace weft
