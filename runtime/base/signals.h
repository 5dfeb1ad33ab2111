// Signals of the host's process are the host's: no thread that Weft or a driver starts may take one.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace weft {

// Blocks the calling thread's signals while it lives. A thread that is started meanwhile inherits that, for good.
// Signals that a fault of the thread itself raises stay: they end the program wherever they occur.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) ::sigdelset(&blocked, fault);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace weft
