#include "model/duty.h"

#include <algorithm>
#include <thread>

namespace weft {
namespace {

constexpr std::chrono::milliseconds kMostPause(10);  // until the share and a cancel are looked at again
// Pauses end a little late, and the CPU has work of its own in between. This much of the lost time is made up for.
constexpr std::chrono::milliseconds kCredit(5);

}  // namespace

// How long after from_. mutex_ is held.
DutyLimit::Clock::duration DutyLimit::due() const {
  const float share = this->share();
  if (share <= 0) return {};
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(busy_) / share);
}

DutyLimit::Clock::duration DutyLimit::left(Clock::time_point now) const {
  const float share = this->share();
  if (share >= 1) return {};
  if (share <= 0) return kMostPause;
  const std::lock_guard lock(mutex_);
  return from_ + due() - now;
}

void DutyLimit::charge(Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  from_ = std::max(from_ + due(), begin - kCredit);
  const bool joins = begin <= end_ && end >= begin_;  // work of another user, which was reported before
  const Clock::duration counted = joins ? end_ - begin_ : Clock::duration{};
  begin_ = joins ? std::min(begin, begin_) : begin;
  end_ = joins ? std::max(end, end_) : end;
  busy_ = end_ - begin_ - counted;
  all_ += busy_;
}

DutyLimit::Clock::duration DutyLimit::busy() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

void Duty::wait() {
  while (limited() && !cancelled_.load(std::memory_order_relaxed)) {
    const Clock::time_point now = Clock::now();
    const Clock::duration own = own_.left(now), left = shared_ ? std::max(own, shared_->left(now)) : own;
    if (left <= Clock::duration::zero()) return;
    const Clock::duration pause = std::min<Clock::duration>(left, kMostPause);
    if (on_pause_) on_pause_(std::chrono::duration<double>(pause).count());
    std::this_thread::sleep_until(now + pause);
    paused_ += Clock::now() - now;
  }
}

void Duty::charge(Clock::time_point begin, Clock::time_point end) {
  own_.charge(begin, end);
  if (shared_) shared_->charge(begin, end);
}

}  // namespace weft
