#include "vocab/heads/trials.h"

#include <algorithm>
#include <limits>

namespace weft {
namespace {

constexpr size_t kRounds = 3;        // of a trial
constexpr size_t kStretch = 4;       // tokens of a turn, of which the first is not timed
constexpr double kHopeless = 1.2;    // a head that takes more than this many times the least has no further turn
constexpr double kLeastGain = 0.98;  // of head 0's time: a head that takes longer is not worth it

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::infinity();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void HeadTrials::passed(std::optional<double> seconds) {
  if (rounds_ > 0 && seconds) times_[head_].push_back(*seconds);
  if (--left_ == 0) next_stretch();
}

void HeadTrials::next_stretch() {
  if (turns_.empty()) {
    if (rounds_ == 0) std::ranges::for_each(times_, [](auto& times) { times.clear(); });
    turns_ = hopeful();
    if (rounds_ == kRounds || turns_.size() < 2) return conclude();
    ++rounds_;
  }
  head_ = turns_.back();
  turns_.pop_back();
  left_ = kStretch;
}

// Heads that may still be the fastest, by the times of this trial.
std::vector<size_t> HeadTrials::hopeful() const {
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& times : times_) least = std::min(least, median(times));
  std::vector<size_t> heads;
  for (size_t i = 0; i < times_.size(); ++i)
    if (times_[i].empty() || median(times_[i]) <= kHopeless * least) heads.push_back(i);
  return heads;
}

void HeadTrials::conclude() {
  head_ = 0;
  double least = kLeastGain * median(times_[0]);
  for (size_t i = 1; i < times_.size(); ++i) {
    if (median(times_[i]) >= least) continue;
    head_ = i;
    least = median(times_[i]);
  }
  turns_.clear();
  rounds_ = 0;
  left_ = pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
}

}  // namespace weft
