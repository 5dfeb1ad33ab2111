#include "ops/support.h"

#include "norm.spv.h"
#include "norm_subgroup.spv.h"

namespace weft::ops {

void norm(Recorder& recorder, const View& state, const View& x, const View& weight, const View& y, uint32_t cols,
          float epsilon, uint32_t tokens, bool last_only) {
  const uint32_t stride = stride_of(cols);
  require_bytes(x, uint64_t{tokens} * stride * 4, "norm", "x");
  require_bytes(y, uint64_t{last_only ? 1 : tokens} * stride * 4, "norm", "y");
  require_bytes(weight, uint64_t{cols} * 4, "norm", "weight");
  const Plan& plan = recorder.device().plan();
  const Kernel& kernel =
      recorder.device().kernel({"norm",
                                plan.subgroup ? std::span<const uint32_t>(norm_subgroup_spv) : norm_spv,
                                4,
                                0b1000,
                                sizeof(abi::NormPush),
                                {plan.reduce_threads}});
  recorder.dispatch(kernel, {state, x, weight, y}, abi::NormPush{cols, stride, stride, last_only, epsilon},
                    {last_only ? 1 : tokens});
}

}  // namespace weft::ops
