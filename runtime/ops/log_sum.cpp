#include "ops/support.h"

#include "log_sum.spv.h"

namespace weft::ops {

void log_sum(Recorder& recorder, const View& logits, const View& bounds, const View& sums, uint32_t rows,
             uint32_t first, uint32_t softmaxes, const View* clusters) {
  const uint32_t end = first + softmaxes;
  require_bytes(logits, uint64_t{end} * stride_of(rows) * 4, "log_sum", "logits");
  require_bytes(bounds, uint64_t{end} * 8, "log_sum", "bounds");
  require_bytes(sums, uint64_t{end} * 4, "log_sum", "sums");
  if (clusters) require_bytes(*clusters, sizeof(abi::ClusterState), "log_sum", "clusters");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(plan.subgroup ? shaders::log_sum_subgroup : shaders::log_sum,
                    shaders::LogSum::Constants{.threads = plan.reduce_threads, .fresh = clusters != nullptr},
                    shaders::LogSum::Bindings{.logits = logits, .bounds = bounds, .sums = sums, .clusters = clusters},
                    abi::LogSumPush{stride_of(rows), first}, {softmaxes});
}

}  // namespace weft::ops
