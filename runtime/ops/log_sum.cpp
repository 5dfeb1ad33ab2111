#include "ops/support.h"

#include "log_sum.spv.h"

namespace weft::ops {

void log_sum(Recorder& recorder, const View& logits, const View& bounds, const View& sums, uint32_t rows,
             uint32_t softmaxes) {
  require_bytes(logits, uint64_t{softmaxes} * stride_of(rows) * 4, "log_sum", "logits");
  require_bytes(bounds, uint64_t{softmaxes} * 8, "log_sum", "bounds");
  require_bytes(sums, uint64_t{softmaxes} * 4, "log_sum", "sums");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch({plan.subgroup ? shaders::log_sum_subgroup : shaders::log_sum, {plan.reduce_threads}},
                    {logits, bounds, sums}, abi::LogSumPush{stride_of(rows)}, {softmaxes});
}

}  // namespace weft::ops
