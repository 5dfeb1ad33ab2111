#include "base/error.h"

#include <utility>

namespace weft {

Error::Error(Code code, std::string sentence, std::string place, std::string hint)
    : code_(code), sentence_(std::move(sentence)), place_(std::move(place)), hint_(std::move(hint)) {
  if (!place_.empty()) what_ = place_ + ": ";
  what_ += sentence_;
  if (!hint_.empty()) what_ += " (" + hint_ + ")";
}

}  // namespace weft
