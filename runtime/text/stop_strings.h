// Texts that end what is generated, wherever tokens cut them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Passes a text on piece by piece, but holds back what could still become the beginning of a stop string. One thread at
// a time.
class StopStrings {
 public:
  static constexpr size_t kMost = 16, kLongest = 256;  // stop strings; bytes of each

  StopStrings() = default;
  // Throws Error(invalid_argument) for one that is empty, too long or not UTF-8, and for too many.
  explicit StopStrings(std::vector<std::string> stops);

  // What may be passed on now: the held-back text and this piece as far as they are decided. Once a stop string is
  // there, only what stands before the first one to end; the rest is dropped, and stopped() is true.
  std::string push(std::string_view piece);
  bool stopped() const { return stopped_; }
  // What is held back, because no more text follows. Everything is then as at the beginning.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace weft
