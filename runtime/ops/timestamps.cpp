#include "ops/support.h"

#include "timestamps.spv.h"

namespace weft::ops {

void timestamps(Recorder& recorder, const View& state, const View& logits, uint32_t first, const Selectable& from) {
  require_bytes(logits, uint64_t{from.rows} * 4, "timestamps", "logits");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(plan.subgroup ? shaders::timestamps_subgroup : shaders::timestamps,
                    shaders::Timestamps::Constants{.threads = plan.reduce_threads, .listed = from.lists != nullptr},
                    shaders::Timestamps::Bindings{.state = state, .logits = logits, .lists = from.lists},
                    abi::TimestampsPush{from.rows, first}, {1});
}

}  // namespace weft::ops
