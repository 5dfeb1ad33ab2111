// Host memory that runs out. A program that links failing_new.cpp has its operator new and, without sanitizers, its
// malloc.
#pragma once

#include <cstddef>

namespace weft::test {

// While it lives, the n-th allocation (from 1) that Weft makes fails: operator new throws std::bad_alloc, malloc gives
// null. Those of all threads count, and those that the standard library, PCRE2 and utf8proc make for Weft, but none of
// drivers and layers and, where Weft is in libraries, none of the test's own. One at a time.
class FailAllocation {
 public:
  enum class Later { succeed, fail };  // the allocations after the n-th

  explicit FailAllocation(size_t n, Later later = Later::succeed);
  ~FailAllocation();
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;

  // Whether there were that many.
  bool failed() const;
  // How many there were.
  size_t count() const;
};

}  // namespace weft::test
