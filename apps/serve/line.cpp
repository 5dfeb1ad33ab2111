#include "line.h"

#include "../weft/common.h"
#include "engine.h"

namespace weft::serve {

void Line::check_open() const {
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) throw Unavailable(Unavailable::Reason::failed, broken_);
  if (closing_) throw Unavailable(Unavailable::Reason::closing, "the server is shutting down");
}

Line::Place::Place(Line& line) : line_(line) {
  line.check_open();
  const std::lock_guard lock(line.mutex_);
  if (line.requests_ >= line.most_requests_)
    throw Unavailable(
        Unavailable::Reason::queue_full,
        cli::format("one request is being answered and %u are waiting, which is the most", line.most_requests_ - 1));
  ++line.requests_;
}

Line::Place::~Place() {
  const std::lock_guard lock(line_.mutex_);
  --line_.requests_;
}

void Line::recover(api::Model& model) {
  try {
    model.recover();
  } catch (const api::Failure& failure) {
    // Nobody waited for it any longer (EndsUnwanted): the next request opens the device.
    if (failure.status() == WEFT_CANCELLED) throw;
    const std::lock_guard lock(mutex_);
    broken_ = failure.what();
    throw;
  }
}

void Line::close() {
  const std::lock_guard lock(mutex_);
  closing_ = true;
}

std::string Line::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

}  // namespace weft::serve
