#include "run/duty.h"

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
  constexpr std::chrono::duration<double> kMost = std::chrono::hours(24);  // a tiny share must not overflow
  return std::chrono::duration_cast<Clock::duration>(std::min(std::chrono::duration<double>(busy_) / share, kMost));
}

DutyLimit::Clock::duration DutyLimit::left(Clock::time_point now) const {
  const float share = this->share();
  if (share >= 1) return {};
  if (share <= 0) return kMostPause;
  const std::lock_guard lock(mutex_);
  return from_ + due() - now;
}

// Returns how much of a time was not reported before, by another user.
DutyLimit::Clock::duration DutyLimit::add(Clock::time_point begin, Clock::time_point end) {
  constexpr size_t kMost = 64;  // times: more than are in flight
  Clock::duration added = end - begin;
  Time merged = {begin, end};
  std::erase_if(reported_, [&](const Time& time) {  // they do not overlap each other
    if (time.end < begin || time.begin > end) return false;
    added -= std::min(end, time.end) - std::max(begin, time.begin);
    merged = {std::min(merged.begin, time.begin), std::max(merged.end, time.end)};
    return true;
  });
  reported_.push_back(merged);
  if (reported_.size() > kMost) reported_.erase(std::ranges::min_element(reported_, {}, &Time::end));
  return added;
}

void DutyLimit::charge(Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  const Clock::duration added = add(begin, end);
  all_ += added;
  if (from_ + due() > begin) {
    busy_ += added;  // the earlier work is not paid for yet
  } else {
    from_ = std::max(from_ + due(), begin - kCredit);
    busy_ = added;
  }
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
  if (own_.share() < 1) own_.charge(begin, end);
  if (shared_ && shared_->share() < 1) shared_->charge(begin, end);
}

}  // namespace weft
