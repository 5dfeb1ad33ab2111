// How much of a pass may be in one submission where a long one could be taken for a hang.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

namespace weft {

// Bounds the time that a submission keeps the device: Plan::submission_ms. Command buffers of a pass are submitted one
// by one until their time is known, then as many at once as take that time by the last measurement. Passes of a few
// tokens, whose time is that of reading the weights once, are whole under a bound of kLongMs and more.
class SubmissionBound {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr uint32_t kLongMs = 500, kFewTokens = 8;

  explicit SubmissionBound(uint32_t milliseconds) : seconds_(milliseconds / 1000.0) {}  // 0: no bound

  // Command buffers that a submission may have, of a pass of `tokens` tokens: at least 1, SIZE_MAX without a bound. 0:
  // the pass has another input, as an encoder's.
  size_t most(uint32_t tokens) const;

  // A wait for a submission's end has lasted from `begin` to `end`. buffers: its command buffers, 0 if their time tells
  // nothing about passes. submitted: when. Submissions are waited for in their order. A wait that found the submission
  // finished measures nothing: it is not known when it has finished.
  void waited(uint32_t tokens, size_t buffers, Clock::time_point submitted, Clock::time_point begin,
              Clock::time_point end);

 private:
  double seconds_;
  std::map<uint32_t, double> each_;  // seconds of a command buffer, by the tokens of its pass
  Clock::time_point last_end_;       // of the submission before
  bool last_is_exact_ = true;        // no: it has ended before then
};

}  // namespace weft
