#include "ops/support.h"

#include "residual.spv.h"

namespace weft::ops {

void residual(Recorder& recorder, const View& x, const View& z, const View& y, uint32_t cols, uint32_t rows) {
  const uint32_t stride = stride_of(cols);
  require_bytes(x, uint64_t{stride} * 4, "residual", "x");
  require_bytes(z, uint64_t{rows} * stride * 4, "residual", "z");
  require_bytes(y, uint64_t{rows} * stride * 4, "residual", "y");
  recorder.dispatch(shaders::residual, {}, shaders::Residual::Bindings{.x = x, .z = z, .y = y},
                    abi::ResidualPush{cols, stride}, {ceil_div(cols, 64), rows});
}

}  // namespace weft::ops
