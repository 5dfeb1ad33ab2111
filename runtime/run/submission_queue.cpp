#include "run/submission_queue.h"

#include <algorithm>
#include <utility>

namespace weft {
namespace {

constexpr uint32_t kPoliteSubmissions = 2;  // in flight

}  // namespace

SubmissionQueue::SubmissionQueue(const Model& model, Policy policy, std::vector<Duty*> duties)
    : device_(model.device),
      policy_(policy),
      duties_(std::move(duties)),
      weights_(model.weights),
      layer_loader_(model.weights.layer_loader.get()),
      // If the host copies states from device to device, passes ahead gain nothing.
      run_ahead_(policy == Policy::throughput && weights_.shards.empty() ? device_->plan().run_ahead : 0),
      most_(policy == Policy::throughput && weights_.shards.empty() ? run_ahead_ + 1 : kPoliteSubmissions),
      bound_(device_->plan().submission_ms) {
  const uint32_t fences = std::max(most_, kPoliteSubmissions);
  for (uint32_t i = 0; i < fences; ++i) idle_fences_.push_back(std::make_unique<Fence>(device_));
  in_flight_.reserve(fences);
}

bool SubmissionQueue::polite() const {
  return policy_ == Policy::polite || std::ranges::any_of(duties_, &Duty::shared);
}

bool SubmissionQueue::limited() const { return std::ranges::any_of(duties_, &Duty::limited); }

void SubmissionQueue::pause() {
  if (!limited()) return;
  if (!in_flight_.empty()) wait(in_flight_.back());
  for (Duty* duty : duties_) duty->wait();
}

void SubmissionQueue::submit(uint32_t tokens, std::span<const CommandBuffer> body, const CommandBuffer& end,
                             size_t pieces) {
  Stream* const stream = weights_.stream.get();
  if (stream) pause();  // here, because other sessions wait for the lock
  const std::unique_lock<std::mutex> lock = stream ? std::unique_lock(stream->order) : std::unique_lock<std::mutex>();
  if (stream && !std::exchange(stream->whole, false))
    run_once(device_, "first layer", [&](Recorder& recorder) { weights_.fetch(recorder, 0); });
  std::vector<const CommandBuffer*> pass;
  for (const CommandBuffer& commands : body) pass.push_back(&commands);
  pass.push_back(&end);
  const size_t wanted = polite() ? pieces : pass.size(), most = std::min(wanted, bound_.most(tokens));
  if (tokens > 0) was_cut_ = most < wanted;
  for (size_t first = 0, last = 0; first < pass.size(); first = last) {
    last = std::min(first + most, pass.size());
    // The first command buffer of a pass is the embedding: number i needs i layers, at most all.
    if (layer_loader_) last = std::min(last - 1, layer_loader_->wait(first)) + 1;
    launch({pass.begin() + static_cast<ptrdiff_t>(first), pass.begin() + static_cast<ptrdiff_t>(last)},
           {nullptr, last == pass.size(), tokens, body.empty() && tokens > 0 ? parts() : last - first, {}, {}});
  }
  if (stream) stream->whole = true;
}

bool SubmissionQueue::takes_whole_passes(uint32_t tokens) {
  if (polite() || weights_.stream || !weights_.shards.empty()) return false;
  if (bound_.most(tokens) < parts()) return false;
  return !layer_loader_ || layer_loader_->wait(0) == SIZE_MAX;
}

void SubmissionQueue::launch(const std::vector<const CommandBuffer*>& commands, Submission submission) {
  if (!weights_.stream) pause();
  const bool wait = limited();
  for (const CommandBuffer* one : commands) {
    while (in_flight(*one)) retire();
    submission.commands.push_back(*one);
  }
  for (const size_t most = polite() ? kPoliteSubmissions : most_; in_flight_.size() >= most;) retire();
  submission.begin = Clock::now();
  device_->submit(commands, *idle_fences_.back());
  submission.fence = std::move(idle_fences_.back());
  idle_fences_.pop_back();
  in_flight_.push_back(std::move(submission));
  passes_ += in_flight_.back().last;
  ++submissions_;
  most_in_flight_ = std::max(most_in_flight_, in_flight_.size());
  if (!wait) return;
  this->wait(in_flight_.back());
  for (Duty* duty : duties_) duty->charge(in_flight_.back().begin, Clock::now());
}

bool SubmissionQueue::in_flight(const CommandBuffer& commands) const {
  return std::ranges::any_of(in_flight_, [&](const Submission& one) {
    return std::ranges::find(one.commands, commands) != one.commands.end();
  });
}

void SubmissionQueue::wait(const Submission& submission) {
  if (!submission.fence->pending()) return;
  const Clock::time_point begin = Clock::now();
  submission.fence->wait();
  bound_.waited(submission.tokens, submission.tokens > 0 ? submission.buffers : 0, submission.begin, begin,
                Clock::now());
}

void SubmissionQueue::retire() {
  wait(in_flight_.front());
  passes_ -= in_flight_.front().last;
  idle_fences_.push_back(std::move(in_flight_.front().fence));
  in_flight_.erase(in_flight_.begin());
}

void SubmissionQueue::wait_oldest() {
  for (const uint32_t before = passes_; passes_ == before;) retire();
}

void SubmissionQueue::drain() {
  while (!in_flight_.empty()) retire();
}

}  // namespace weft
