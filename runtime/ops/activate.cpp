#include "ops/support.h"

#include "activate.spv.h"

namespace weft::ops {

void activate(Recorder& recorder, Activation activation, bool gated, const View& state, const View& x, const View& y,
              uint32_t cols, uint32_t tokens, uint32_t copies) {
  const uint32_t in_stride = stride_of(gated ? 2 * cols : cols), out_stride = stride_of(cols), rows = tokens * copies;
  require(gated || activation != Activation::clamped, "activate", "limits without a gate");
  require_bytes(x, uint64_t{rows} * in_stride * 4, "activate", "x");
  require_bytes(y, uint64_t{rows} * out_stride * 4, "activate", "y");
  const bool texel = recorder.device().plan().texel_products && cols % 4 == 0;
  const shaders::Activate& shader = texel ? shaders::activate_texel : shaders::activate;
  recorder.dispatch(shader, shaders::Activate::Constants{.activation = activation, .gated = gated},
                    shaders::Activate::Bindings{.state = state, .x = x, .y = y},
                    abi::ActivatePush{cols, in_stride, out_stride, copies},
                    {rows, ceil_div(cols, texel ? 4 * 64 : 64)});
}

}  // namespace weft::ops
