#include "turns.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "exchange.h"

namespace weft::serve {

void Turns::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
  changed_.notify_all();
}

Turn::Turn(Turns& turns, const HttpClient& client, std::chrono::steady_clock::time_point deadline) : turns_(turns) {
  std::unique_lock lock(turns_.mutex_);
  while (!turns_.closing_ && turns_.taken_ >= kMostTurns) {
    turns_.changed_.wait_for(lock, kLook);
    check_wanted(client, deadline);
  }
  if (turns_.closing_) throw Unavailable(Unavailable::Reason::closing, "the server is shutting down");
  ++turns_.taken_;
}

Turn::~Turn() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
  const std::lock_guard lock(turns_.mutex_);
  --turns_.taken_;
  turns_.changed_.notify_one();
}

}  // namespace weft::serve
