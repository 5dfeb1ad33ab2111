#include "ops/filter.h"
#include "ops/support.h"
#include "shaders/narrowed.h"

#include "timestamps.spv.h"

namespace weft::ops {

void timestamps(Recorder& recorder, const View& state, const View& logits, const View& scores, uint32_t first,
                const Selectable& from) {
  require_bytes(logits, uint64_t{from.rows} * 4, "timestamps", "logits");
  require_bytes(scores, score_bytes(from.rows), "timestamps", "scores");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(
      plan.subgroup ? shaders::timestamps_subgroup : shaders::timestamps,
      shaders::Timestamps::Constants{.threads = plan.reduce_threads, .listed = from.lists != nullptr},
      shaders::Timestamps::Bindings{
          .state = state, .logits = logits, .lists = from.lists, .narrowed = filter_scratch(scores, from.rows)},
      abi::TimestampsPush{from.rows, first}, {ceil_div(from.rows, PART_ROWS)});
}

}  // namespace weft::ops
