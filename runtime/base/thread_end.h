// Threads of the host that end within a call of Weft.
#pragma once

#include <pthread.h>

// glibc ends a thread (pthread_exit in a callback, CPython's daemon threads when the program ends) by an exception that
// unwinds the stack. A handler that stops it ends the program: "FATAL: exception not rethrown". This goes before every
// catch (...) that a callback may be below of.
#if __has_include(<bits/cxxabi_forced.h>)
#include <cxxabi.h>
#define WEFT_LET_THREAD_END               \
  catch (const ::abi::__forced_unwind&) { \
    throw;                                \
  }
#else
#define WEFT_LET_THREAD_END
#endif

namespace weft {

// Puts off pthread_cancel while it lives: drivers, and destructors that wait for the device, cannot be left half-way.
class NoCancel {
 public:
#ifdef PTHREAD_CANCEL_DISABLE
  NoCancel() noexcept { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { ::pthread_setcancelstate(before_, nullptr); }

 private:
  int before_ = 0;
#else  // Android
  NoCancel() noexcept {}
#endif
 public:
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;
};

}  // namespace weft
