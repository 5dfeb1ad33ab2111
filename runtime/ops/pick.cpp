#include "ops/support.h"

#include "pick.spv.h"

namespace weft::ops {

uint32_t candidate_count(uint32_t rows) { return ceil_div(rows, PICK_ROWS); }

void pick(Recorder& recorder, const View& state, const View& params, const View& scores, const View& candidates,
          uint32_t rows) {
  require_bytes(scores, uint64_t{rows} * 4, "pick", "scores");
  require_bytes(candidates, candidate_count(rows) * sizeof(abi::Candidate), "pick", "candidates");
  const Kernel& kernel = recorder.device().kernel({"pick", pick_spv, 4, 0b1000, sizeof(abi::PickPush), {}});
  recorder.dispatch(kernel, {state, params, scores, candidates}, abi::PickPush{rows}, {candidate_count(rows)});
}

}  // namespace weft::ops
