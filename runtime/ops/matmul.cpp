#include "ops/rows.h"

#include "matmul.spv.h"
#include "matmul_texel.spv.h"
#include "matmul_uniform.spv.h"

namespace weft::ops {

void matmul(Recorder& recorder, const Matrix& weights, const View& state, const View& x, const View& y, uint32_t tokens,
            Output output) {
  const Plan& plan = recorder.device().plan();
  RowsVariant variant = rows_variant(plan, weights, tokens);
  const uint32_t in_stride = stride_of(weights.cols), out_stride = stride_of(weights.rows);
  require(weights.layout == Layout::values, "matmul", "the matrix is a vocabulary table");
  require(tokens % variant.tokens == 0, "matmul", "a pass is no whole number of token groups");
  require_bytes(x, uint64_t{tokens} * in_stride * 4, "matmul", "x");
  require_bytes(y, uint64_t{tokens} * out_stride * 4, "matmul", "y");
  const bool biased = weights.bias.buffer != nullptr;
  if (biased) require_bytes(weights.bias, uint64_t{weights.rows} * 4, "matmul", "bias");
  variant.constants.push_back(biased ? 1 : 0);
  variant.constants.push_back(output == Output::add ? 1 : 0);
  const Kernel& kernel = recorder.device().kernel(product_spec(
      "matmul", {matmul_spv, matmul_uniform_spv, matmul_texel_spv}, variant, 5, 0b1000, sizeof(abi::MatmulPush)));
  const uint32_t window = variant.uniform ? variant.tokens : tokens;  // tokens of a dispatch
  for (const Matrix::Slice& slice : weights.slices(plan.slice_bytes))
    for (uint32_t first = 0; first < tokens; first += window)
      recorder.dispatch(kernel,
                        {slice.view, x.part(uint64_t{first} * in_stride * 4, uint64_t{window} * in_stride * 4), state,
                         y, biased ? weights.bias : state},
                        abi::MatmulPush{weights.cols, slice.rows, slice.row_base, in_stride, out_stride, first},
                        {ceil_div(slice.rows, TILE_ROWS * variant.row_tiles), window / variant.tokens});
}

}  // namespace weft::ops
