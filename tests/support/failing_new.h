// Host memory that runs out. A program that links failing_new.cpp gets its operator new and, without sanitizers, its
// malloc.
#pragma once

#include <cstddef>

namespace weft::test {

// While it lives, the n-th allocation (from 1) that Weft makes fails: operator new throws std::bad_alloc, malloc gives
// null. Allocations of all threads count, and those that the standard library, PCRE2 and utf8proc make for Weft.
// Allocations of drivers and layers do not, nor do the test's own where Weft is in libraries. One object at a time.
class FailAllocation {
 public:
  enum class Later { succeed, fail };  // the allocations after the n-th

  explicit FailAllocation(size_t n, Later later = Later::succeed);
  ~FailAllocation();
  FailAllocation(const FailAllocation&) = delete;
  FailAllocation& operator=(const FailAllocation&) = delete;

  // True if there were n allocations.
  bool failed() const;
  // Number of allocations so far.
  size_t count() const;
};

}  // namespace weft::test
