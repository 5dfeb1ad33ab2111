#include "ops/support.h"

#include "swiglu.spv.h"

namespace weft::ops {

void swiglu(Recorder& recorder, const View& state, const View& gate_up, const View& y, uint32_t cols, uint32_t tokens) {
  const uint32_t in_stride = stride_of(2 * cols), out_stride = stride_of(cols);
  require_bytes(gate_up, uint64_t{tokens} * in_stride * 4, "swiglu", "gate_up");
  require_bytes(y, uint64_t{tokens} * out_stride * 4, "swiglu", "y");
  const Kernel& kernel = recorder.device().kernel({"swiglu", swiglu_spv, 3, 0b100, sizeof(abi::SwigluPush), {}});
  recorder.dispatch(kernel, {state, gate_up, y}, abi::SwigluPush{cols, in_stride, out_stride},
                    {ceil_div(cols, 64), tokens});
}

}  // namespace weft::ops
