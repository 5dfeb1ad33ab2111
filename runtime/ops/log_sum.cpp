#include "ops/support.h"
#include "shaders/narrowed.h"

#include "log_sum.spv.h"

namespace weft::ops {

static uint32_t log_sum_parts(uint32_t rows) { return ceil_div(rows, PART_ROWS); }

uint64_t log_sum_bytes(uint32_t rows, uint32_t softmaxes) {
  return (MAX_SOFTMAXES + uint64_t{softmaxes} * (1 + 2 * log_sum_parts(rows))) * 4;
}

void log_sum(Recorder& recorder, const View& logits, const View& bounds, const View& sums, uint32_t rows,
             uint32_t first, uint32_t softmaxes, const View* clusters) {
  const uint32_t end = first + softmaxes;
  require_bytes(logits, uint64_t{end} * stride_of(rows) * 4, "log_sum", "logits");
  require_bytes(bounds, uint64_t{end} * 8, "log_sum", "bounds");
  require(end <= MAX_SOFTMAXES, "log_sum", "too many softmaxes");
  require_bytes(sums, log_sum_bytes(rows, end), "log_sum", "sums");
  if (clusters) require_bytes(*clusters, sizeof(abi::ClusterState), "log_sum", "clusters");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(plan.subgroup ? shaders::log_sum_subgroup : shaders::log_sum,
                    shaders::LogSum::Constants{.threads = plan.reduce_threads, .fresh = clusters != nullptr},
                    shaders::LogSum::Bindings{.logits = logits, .bounds = bounds, .sums = sums, .clusters = clusters},
                    abi::LogSumPush{stride_of(rows), first}, {softmaxes, log_sum_parts(rows)});
}

}  // namespace weft::ops
