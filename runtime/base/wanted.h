// Long work that needs no device asks now and then whether its caller still wants the result.
#pragma once

#include <cstdint>

namespace weft {

// wanted: called with `user` by work on this thread, until this is called again. It returns 0 if the result is not
// wanted any more. nullptr: nobody is asked.
void set_wanted(int (*wanted)(void* user), void* user);

// Throws Error(cancelled) if the result is not wanted.
void check_wanted();

// For loops whose rounds take less than a microsecond.
class WantedRounds {
 public:
  void next() {
    if (++rounds_ % 256 == 0) check_wanted();
  }

 private:
  uint32_t rounds_ = 0;
};

}  // namespace weft
