#include "run/submission_bound.h"

#include <algorithm>

namespace weft {

size_t SubmissionBound::most(uint32_t tokens) const {
  if (seconds_ <= 0 || (tokens > 0 && tokens <= kFewTokens && seconds_ >= kLongMs / 1000.0)) return SIZE_MAX;
  const auto found = each_.find(tokens);
  if (found == each_.end()) return 1;
  constexpr double kMost = 1 << 20;
  return static_cast<size_t>(std::clamp(seconds_ / found->second, 1.0, kMost));
}

void SubmissionBound::waited(uint32_t tokens, size_t buffers, Clock::time_point submitted, Clock::time_point begin,
                             Clock::time_point end) {
  if (seconds_ <= 0) return;
  constexpr Clock::duration kAtOnce = std::chrono::microseconds(50);  // a wait that has not blocked
  const bool blocked = end - begin >= kAtOnce, known_begin = last_is_exact_ || submitted >= last_end_;
  const Clock::time_point from = std::max(submitted, last_end_);
  last_end_ = end;
  last_is_exact_ = blocked;
  if (!blocked || !known_begin || buffers == 0) return;
  const double seconds = std::chrono::duration<double>(end - from).count();
  each_[tokens] = std::max(seconds, 1e-6) / static_cast<double>(buffers);
}

}  // namespace weft
