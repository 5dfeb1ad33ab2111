#include "ops/support.h"

#include "adjust.spv.h"

namespace weft::ops {

void adjust(Recorder& recorder, const View& params, const View& seen, const View& logits, const View& scores,
            uint32_t rows) {
  require_bytes(logits, uint64_t{rows} * 4, "adjust", "logits");
  require_bytes(scores, uint64_t{rows} * 4, "adjust", "scores");
  require_bytes(seen, uint64_t{ceil_div(rows, 32)} * 4, "adjust", "seen");
  const Kernel& kernel = recorder.device().kernel({"adjust", adjust_spv, 4, 0b1000, sizeof(abi::AdjustPush), {}});
  recorder.dispatch(kernel, {params, seen, logits, scores}, abi::AdjustPush{rows}, {ceil_div(rows, 64)});
}

}  // namespace weft::ops
