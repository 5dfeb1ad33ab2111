#include "ops/support.h"

#include "matmul.spv.h"

namespace weft::ops {

void matmul(Recorder& recorder, const Matrix& weights, const View& state, const View& x, const View& y, uint32_t tokens,
            Output output) {
  const Plan& plan = recorder.device().plan();
  const uint32_t block = tokens == 1 ? 1 : plan.block_tokens;
  require(tokens % block == 0, "matmul", "a pass is no whole number of token blocks");
  require_bytes(x, uint64_t{tokens} * stride_of(weights.cols) * 4, "matmul", "x");
  require_bytes(y, uint64_t{tokens} * stride_of(weights.rows) * 4, "matmul", "y");
  const Kernel& kernel = recorder.device().kernel({"matmul",
                                                   matmul_spv,
                                                   4,
                                                   0b1000,
                                                   sizeof(abi::MatmulPush),
                                                   {static_cast<uint32_t>(weights.format), block, plan.split}});
  for (const Matrix::Slice& slice : weights.slices(plan.slice_bytes))
    recorder.dispatch(kernel, {slice.view, x, state, y},
                      abi::MatmulPush{weights.cols, slice.rows, slice.row_base, stride_of(weights.cols),
                                      stride_of(weights.rows), output == Output::add},
                      {ceil_div(slice.rows, TILE_ROWS), tokens / block});
}

}  // namespace weft::ops
