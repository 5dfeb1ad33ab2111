// Host memory that runs out. A program that links failing_new.cpp has its operator new.
#pragma once

#include <cstddef>

namespace weft::test {

// While it lives, the n-th allocation (from 1) that Weft makes on this thread throws std::bad_alloc. Allocations of
// drivers and layers are not counted, those that the standard library makes for Weft are. One at a time on a thread.
class FailAllocation {
 public:
  explicit FailAllocation(size_t n);
  ~FailAllocation();
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;

  // Whether there were that many.
  bool failed() const;
};

}  // namespace weft::test
