// How much of the time the device may be busy with somebody's work.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <span>

namespace weft {

// set_share() from anywhere; the rest by the thread that submits the work.
class Duty {
 public:
  using Clock = std::chrono::steady_clock;
  using OnPause = std::function<void(double seconds)>;

  explicit Duty(const std::atomic<bool>& cancelled) : cancelled_(cancelled) {}  // ends pauses; outlives this

  // Share of the time that the device may be busy, 0 to 1. 1: no limit. 0: no work. Lock-free.
  void set_share(float share) { share_.store(share, std::memory_order_relaxed); }
  float share() const { return share_.load(std::memory_order_relaxed); }
  // Called before each pause, in the thread that pauses, with the seconds it will last: 10 ms at most; a longer pause
  // is split into several.
  void set_on_pause(OnPause on_pause) { on_pause_ = std::move(on_pause); }

  // Returns when the next work may begin.
  void wait();
  // Reports when the device was busy with the work.
  void charge(Clock::time_point begin, Clock::time_point end);
  Clock::duration paused() const { return paused_; }  // in all

 private:
  Clock::duration due() const;

  const std::atomic<bool>& cancelled_;
  std::atomic<float> share_ = 1;
  static_assert(std::atomic<float>::is_always_lock_free);
  OnPause on_pause_;
  // The next work may begin when `busy_` is the share of what has passed since `from_`.
  Clock::time_point from_;
  Clock::duration busy_{}, paused_{};
};

// Elapsed time since its construction, without the pauses of the given duties: earlier work has caused them.
class Stopwatch {
 public:
  explicit Stopwatch(std::span<Duty* const> duties) : duties_(duties) {}  // they outlive this
  double seconds() const { return std::chrono::duration<double>(now() - begin_).count(); }

 private:
  Duty::Clock::time_point now() const {
    Duty::Clock::time_point now = Duty::Clock::now();
    for (const Duty* duty : duties_) now -= duty->paused();
    return now;
  }
  std::span<Duty* const> duties_;
  Duty::Clock::time_point begin_ = now();
};

}  // namespace weft
