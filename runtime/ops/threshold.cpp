#include "ops/support.h"

#include "threshold.spv.h"
#include "threshold_subgroup.spv.h"

namespace weft::ops {

void threshold(Recorder& recorder, const View& state, const View& params, const View& scores, uint32_t rows) {
  require_bytes(scores, uint64_t{rows} * 4, "threshold", "scores");
  const Plan& plan = recorder.device().plan();
  const Kernel& kernel =
      recorder.device().kernel({"threshold",
                                plan.subgroup ? std::span<const uint32_t>(threshold_subgroup_spv) : threshold_spv,
                                3,
                                0b001,
                                sizeof(abi::PickPush),
                                {plan.reduce_threads}});
  recorder.dispatch(kernel, {state, params, scores}, abi::PickPush{rows}, {1});
}

}  // namespace weft::ops
