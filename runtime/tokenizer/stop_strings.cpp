#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace weft {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  const auto refuse = [](const std::string& why) { throw Error(Code::invalid_argument, why, "stop"); };
  if (stops_.size() > kMost)
    refuse("there are " + std::to_string(stops_.size()) + " stop strings, expected at most " + std::to_string(kMost));
  for (const std::string& stop : stops_) {
    if (stop.empty()) refuse("a stop string is empty");
    if (stop.size() > kLongest)
      refuse("a stop string has " + std::to_string(stop.size()) + " bytes, expected at most " +
             std::to_string(kLongest));
    if (valid_utf8_prefix(stop) != stop.size()) refuse("the stop string " + in_quotes(stop) + " is not UTF-8");
  }
}

std::string StopStrings::push(std::string_view piece) {
  if (stopped_) return {};
  if (stops_.empty()) return std::string(piece);
  held_ += piece;
  // The first to end, and of those that end there the one that began first.
  size_t begin = 0, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (end == std::string::npos || at + stop.size() < end || (at + stop.size() == end && at < begin)) {
      begin = at;
      end = at + stop.size();
      which_ = static_cast<size_t>(&stop - stops_.data());
    }
  }
  if (end != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, begin);
  }
  size_t hold = 0;  // bytes at the end that a stop string begins with
  for (const std::string& stop : stops_)
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > hold; --size)
      if (held_.compare(held_.size() - size, size, stop, 0, size) == 0) hold = size;
  std::string out = held_.substr(0, held_.size() - hold);
  held_.erase(0, out.size());
  return out;
}

std::string StopStrings::release() { return std::exchange(held_, {}); }

std::string StopStrings::finish() {
  stopped_ = false;
  return release();
}

}  // namespace weft
