#include "ops/support.h"

#include "norm.spv.h"
#include "norm_subgroup.spv.h"

namespace weft::ops {

void norm(Recorder& recorder, const NormShape& shape, const View& state, const View& x, const View& weight,
          const View& y, uint32_t tokens, bool last_only, Output output) {
  const uint32_t stride = stride_of(shape.cols);
  require_bytes(x, uint64_t{tokens} * stride * 4, "norm", "x");
  require_bytes(y, uint64_t{last_only ? 1 : tokens} * stride * 4, "norm", "y");
  require_bytes(weight, weight_floats(shape) * 4, "norm", "weight");
  const Plan& plan = recorder.device().plan();
  const Kernel& kernel =
      recorder.device().kernel({"norm",
                                plan.subgroup ? std::span<const uint32_t>(norm_subgroup_spv) : norm_spv,
                                4,
                                0b1000,
                                sizeof(abi::NormPush),
                                {plan.reduce_threads, static_cast<uint32_t>(shape.kind), output == Output::add}});
  recorder.dispatch(kernel, {state, x, weight, y}, abi::NormPush{shape.cols, stride, stride, last_only, shape.epsilon},
                    {last_only ? 1 : tokens});
}

}  // namespace weft::ops
