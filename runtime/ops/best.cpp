#include "ops/support.h"

#include "best.spv.h"

namespace weft::ops {

void best(Recorder& recorder, const View& logits, uint32_t rows, const View& candidates, uint32_t stride,
          const View& guesses, uint32_t states, uint32_t ranks) {
  const uint32_t count = candidate_count(rows), logit_stride = stride_of(rows);
  require(stride >= count && count > 0 && ranks > 0, "best", "the candidates of two states overlap");
  require_bytes(logits, (uint64_t{states - 1} * logit_stride + rows) * 4, "best", "logits");
  require_bytes(candidates, (uint64_t{states - 1} * stride + count) * sizeof(abi::Candidate), "best", "candidates");
  require_bytes(guesses, uint64_t{states} * ranks * sizeof(abi::Guess), "best", "guesses");
  recorder.dispatch(shaders::best, shaders::Best::Constants{.threads = recorder.device().plan().reduce_threads},
                    shaders::Best::Bindings{.logits = logits, .candidates = candidates, .guesses = guesses},
                    abi::BestPush{rows, logit_stride, stride, ranks}, {states});
}

}  // namespace weft::ops
