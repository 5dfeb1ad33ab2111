// Turns of requests with large bodies: few are parsed and tokenized at a time, which bounds their memory.
#pragma once

#include <condition_variable>
#include <mutex>

#include "http.h"

namespace weft::serve {

constexpr std::size_t kLargeBody = 64 << 10;  // bytes; smaller bodies need no turn
constexpr std::size_t kMostTurns = 2;         // at a time

class Turns {
 public:
  // Requests that wait for their turn are refused from now on.
  void close();

 private:
  friend class Turn;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t taken_ = 0;
  bool closing_ = false;
};

class Turn {
 public:
  // Waits. Throws RequestError if the request need not be answered any more, and Unavailable after close().
  Turn(Turns& turns, const HttpClient& client, std::chrono::steady_clock::time_point deadline);
  // Gives what was freed meanwhile back to the system.
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Turns& turns_;
};

}  // namespace weft::serve
