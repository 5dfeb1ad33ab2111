// Recordings of one pass that take turns. A command buffer in flight must not be submitted again, so a pass that may
// follow itself needs as many recordings as there are passes in flight.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace weft {

template <class Recording>
class Turns {
 public:
  void add(Recording recording) { all_.push_back(std::move(recording)); }
  // The recording to submit next: the one that was submitted longest ago. If that is busy (`busy(recording)`) and there
  // are fewer than `most`, `record()` makes another one. It stays until the next call.
  template <class Busy, class Record>
  const Recording& next(size_t most, const Busy& busy, const Record& record) {
    if (next_ == all_.size()) next_ = 0;
    if (all_.empty() || (all_.size() < most && busy(all_[next_])))
      all_.insert(all_.begin() + static_cast<std::ptrdiff_t>(next_), record());
    return all_[next_++];
  }

 private:
  std::vector<Recording> all_;  // in the order of their last submissions, beginning at next_
  size_t next_ = 0;
};

}  // namespace weft
