// Passes of one size for those who want to know what happens within. Each one is waited for.
#pragma once

#include "run/record_pass.h"

namespace weft {

class WatchedPasses {
 public:
  // pass: its buffers outlive this. after: records copies of what is wanted, after the embedding (0) and each layer
  // (1 ..); end: after the last layer. Both may be empty. duties: as of a SubmissionQueue.
  WatchedPasses(const Pass& pass, Policy policy, std::vector<Duty*> duties,
                const std::function<void(Recorder&, uint32_t layer)>& after,
                const std::function<void(Recorder&)>& end = {});

  // Computes the next tokens of the context: those from state.pos to state.end, at most as many as the pass has.
  void run();

 private:
  uint32_t tokens_;
  CommandPool pool_;
  RecordedPass pass_;
  SubmissionQueue queue_;  // after the pool: its fences wait before that goes
};

}  // namespace weft
