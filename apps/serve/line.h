// Requests for what does one thing at a time, in line: an encoder, a listener.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "protocol.h"

namespace weft::serve {

// May be used by any thread.
class Line {
 public:
  // queue: requests that may wait while one is answered.
  explicit Line(std::uint32_t queue) : most_requests_(queue + 1) {}

  // A request in the line. Throws Unavailable.
  class Place {
   public:
    explicit Place(Line& line);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // Waits for the request's turn, and runs `work`; if the model's device was lost, opens it again and runs it once
    // more. Throws Unavailable, and what work and recover() throw.
    template <class Work>
    auto run(api::Model& model, const Work& work) {
      const std::lock_guard turn(line_.turn_);
      line_.check_open();
      try {
        return work();
      } catch (const api::Failure& failure) {
        if (failure.status() != WEFT_DEVICE_LOST) throw;
      }
      line_.recover(model);
      return work();
    }

   private:
    Line& line_;
  };

  void close();  // ends all requests after their present work, and takes no more
  // Why no request can be answered any more; empty: they can.
  std::string broken() const;

 private:
  void check_open() const;
  void recover(api::Model& model);

  const std::uint32_t most_requests_;

  mutable std::mutex mutex_;  // of what follows
  std::uint32_t requests_ = 0;
  bool closing_ = false;
  std::string broken_;

  std::mutex turn_;
};

}  // namespace weft::serve
