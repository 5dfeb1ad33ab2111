#include "ops/support.h"

#include "norm.spv.h"
#include "norm_subgroup.spv.h"
#include "norm_texel.spv.h"

namespace weft::ops {

void norm(Recorder& recorder, const NormShape& shape, const View& state, const View& x, const View& weight,
          const View& y, uint32_t tokens, bool last_only, Output output) {
  const uint32_t stride = stride_of(shape.cols);
  require_bytes(x, uint64_t{tokens} * stride * 4, "norm", "x");
  require_bytes(y, uint64_t{last_only ? 1 : tokens} * stride * 4, "norm", "y");
  require_bytes(weight, weight_floats(shape) * 4, "norm", "weight");
  const Plan& plan = recorder.device().plan();
  const abi::NormPush push = {shape.cols, stride, stride, last_only, shape.epsilon};
  const uint32_t kind = static_cast<uint32_t>(shape.kind), add = output == Output::add ? 1 : 0;
  if (plan.texel_products && shape.cols % 4 == 0) {
    const Kernel& kernel =
        recorder.device().kernel({"norm", norm_texel_spv, 4, 0b1000, sizeof push, {kind, add}, 0, 0b0110});
    return recorder.dispatch(kernel, {state, x, weight, y}, push, {last_only ? 1 : tokens});
  }
  const Kernel& kernel =
      recorder.device().kernel({"norm",
                                plan.subgroup ? std::span<const uint32_t>(norm_subgroup_spv) : norm_spv,
                                4,
                                0b1000,
                                sizeof push,
                                {plan.reduce_threads, kind, add}});
  recorder.dispatch(kernel, {state, x, weight, y}, push, {last_only ? 1 : tokens});
}

}  // namespace weft::ops
