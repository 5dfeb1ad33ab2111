#include "run/watched_passes.h"

namespace weft {

WatchedPasses::WatchedPasses(const Pass& pass, Policy policy, std::vector<Duty*> duties,
                             const std::function<void(Recorder&, uint32_t layer)>& after,
                             const std::function<void(Recorder&)>& end)
    : tokens_(pass.tokens), pool_(pass.model.device), queue_(pass.model, policy, std::move(duties)) {
  pass_.body = record_body(pool_, pass, nullptr, after);
  pass_.end = record_end(pool_, pass, [&](Recorder& r) {
    if (end) end(r);
    ops::advance(r, pass.step.views(pass.a), 0, tokens_);
  });
}

void WatchedPasses::run() {
  queue_.submit(tokens_, pass_);
  queue_.drain();
}

}  // namespace weft
