#include "ops/support.h"

#include "timestamps.spv.h"

namespace weft::ops {

void timestamps(Recorder& recorder, const View& state, const View& logits, uint32_t first, const Selectable& from) {
  require_bytes(logits, uint64_t{from.rows} * 4, "timestamps", "logits");
  const Plan& plan = recorder.device().plan();
  const bool listed = from.lists != nullptr;
  recorder.dispatch({plan.subgroup ? shaders::timestamps_subgroup : shaders::timestamps, {plan.reduce_threads, listed}},
                    {state, logits, listed ? *from.lists : state}, abi::TimestampsPush{from.rows, first}, {1});
}

}  // namespace weft::ops
