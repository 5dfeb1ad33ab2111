// How much of the time the device may be busy with somebody's work.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace weft {

// The share of the time that a device may be busy with the work of all users of this limit. From any thread.
class DutyLimit {
 public:
  using Clock = std::chrono::steady_clock;

  // 0 to 1. 1: no limit. 0: no work. Lock-free.
  void set_share(float share) { share_.store(share, std::memory_order_relaxed); }
  float share() const { return share_.load(std::memory_order_relaxed); }

  // Time until the next work may begin; none or less: it may begin now.
  Clock::duration left(Clock::time_point now) const;
  // Reports when the device was busy with the work of one user. Time in which it was busy with several counts once.
  void charge(Clock::time_point begin, Clock::time_point end);
  Clock::duration busy() const;  // in all, while the share was below 1

 private:
  struct Time {
    Clock::time_point begin, end;
  };
  Clock::duration due() const;
  Clock::duration add(Clock::time_point begin, Clock::time_point end);

  std::atomic<float> share_ = 1;
  static_assert(std::atomic<float>::is_always_lock_free);
  mutable std::mutex mutex_;  // of the following
  // The next work may begin when `busy_` is the share of what has passed since `from_`.
  Clock::time_point from_;
  Clock::duration busy_{}, all_{};
  std::vector<Time> reported_;  // the newest times that the device was busy, without overlaps
};

// A user's limits: its own, and one that it has together with others. set_share() from anywhere; the rest by the thread
// that submits the work.
class Duty {
 public:
  using Clock = DutyLimit::Clock;
  using OnPause = std::function<void(double seconds)>;

  explicit Duty(const std::atomic<bool>& cancelled) : cancelled_(cancelled) {}  // ends pauses; outlives this

  void set_share(float share) { own_.set_share(share); }  // of its own limit
  // Has later work keep to this limit too; nullptr: no longer.
  void keep_to(std::shared_ptr<DutyLimit> limit) { shared_ = std::move(limit); }
  bool shared() const { return shared_ != nullptr; }
  bool limited() const { return own_.share() < 1 || (shared_ && shared_->share() < 1); }
  // Called before each pause, in the thread that pauses, with the seconds it will last: 10 ms at most; a longer pause
  // is split into several.
  void set_on_pause(OnPause on_pause) { on_pause_ = std::move(on_pause); }

  // Returns when the next work may begin.
  void wait();
  // Reports when the device was busy with the work.
  void charge(Clock::time_point begin, Clock::time_point end);
  // Does work on the device that ends before it returns, and counts it.
  template <class Work>
  auto run(const Work& work) {
    if (!limited()) return work();
    wait();
    const Clock::time_point begin = Clock::now();
    auto result = work();
    charge(begin, Clock::now());
    return result;
  }
  Clock::duration paused() const { return paused_; }  // in all

 private:
  const std::atomic<bool>& cancelled_;
  DutyLimit own_;
  std::shared_ptr<DutyLimit> shared_;  // nullptr: none
  OnPause on_pause_;
  Clock::duration paused_{};
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
