#include "model/duty.h"

#include <algorithm>
#include <thread>

namespace weft {
namespace {

constexpr std::chrono::milliseconds kMostPause(10);  // until the share and a cancel are looked at again
// Pauses end a little late, and the CPU has work of its own in between. This much of the lost time is made up for.
constexpr std::chrono::milliseconds kCredit(5);

}  // namespace

// How long after from_.
Duty::Clock::duration Duty::due() const {
  const float share = this->share();
  if (share <= 0) return {};
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(busy_) / share);
}

void Duty::wait() {
  for (float share; (share = this->share()) < 1 && !cancelled_.load(std::memory_order_relaxed);) {
    const Clock::time_point now = Clock::now();
    const Clock::duration left = share > 0 ? from_ + due() - now : Clock::duration(kMostPause);
    if (left <= Clock::duration::zero()) return;
    const Clock::duration pause = std::min<Clock::duration>(left, kMostPause);
    if (on_pause_) on_pause_(std::chrono::duration<double>(pause).count());
    std::this_thread::sleep_until(now + pause);
    paused_ += Clock::now() - now;
  }
}

void Duty::charge(Clock::time_point begin, Clock::time_point end) {
  from_ = std::max(from_ + due(), begin - kCredit);
  busy_ = end - begin;
}

}  // namespace weft
