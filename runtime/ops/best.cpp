#include "ops/support.h"

#include "best.spv.h"

namespace weft::ops {

void best(Recorder& recorder, const View& candidates, uint32_t stride, uint32_t count, const View& guesses,
          uint32_t states) {
  require(stride >= count && count > 0, "best", "the candidates of two states overlap");
  require_bytes(candidates, (uint64_t{states - 1} * stride + count) * sizeof(abi::Candidate), "best", "candidates");
  require_bytes(guesses, states * sizeof(abi::Guess), "best", "guesses");
  recorder.dispatch({shaders::best, {recorder.device().plan().reduce_threads}}, {candidates, guesses},
                    abi::BestPush{count, stride}, {states});
}

}  // namespace weft::ops
