#include "ops/support.h"

#include "halves.spv.h"

namespace weft::ops {

uint32_t halves_stride(uint32_t cols) { return HALVES_STRIDE(cols); }

void halves(Recorder& recorder, uint32_t cols, const View& state, const View& x, const View& halves, uint32_t tokens) {
  const uint32_t stride = stride_of(cols), out_stride = halves_stride(cols);
  require_bytes(x, uint64_t{tokens} * stride * 4, "halves", "x");
  require_bytes(halves, uint64_t{tokens} * out_stride * 4, "halves", "halves");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(plan.subgroup ? shaders::halves_subgroup : shaders::halves,
                    shaders::Halves::Constants{.threads = plan.reduce_threads},
                    shaders::Halves::Bindings{.state = state, .x = x, .halves = halves},
                    abi::HalvesPush{cols, stride, out_stride}, {tokens});
}

}  // namespace weft::ops
