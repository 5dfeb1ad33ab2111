#include "ops/rows.h"

#include "matmul_expert.spv.h"

namespace weft::ops {

void matmul_expert(Recorder& recorder, const Matrix& weights, const Experts& experts, const View& state,
                   const View& chosen, const View& x, const View& y, uint32_t tokens, OfChosen of) {
  const Plan& plan = recorder.device().plan();
  const RowsVariant variant = rows_variant(plan, weights, 1);
  const uint32_t in_stride = stride_of(weights.cols), out_stride = stride_of(weights.rows);
  const bool sums = of == OfChosen::sum;
  const View& bias = weights.bias;
  require(weights.layout == Layout::values && weights.first_rows == 0, "matmul_expert", "no expert's matrix");
  require(experts.used > 0 && experts.used <= experts.count, "matmul_expert", "more choices than experts");
  require_bytes(weights.view, experts.count * weights.bytes(), "matmul_expert", "weights");
  require_bytes(x, uint64_t{tokens} * (sums ? experts.used : 1) * in_stride * 4, "matmul_expert", "x");
  require_bytes(y, uint64_t{tokens} * (sums ? 1 : experts.used) * out_stride * 4, "matmul_expert", "y");
  require_bytes(chosen, uint64_t{tokens} * experts.used * sizeof(abi::RoutedExpert), "matmul_expert", "chosen");
  if (bias.buffer) require_bytes(bias, uint64_t{experts.count} * weights.rows * 4, "matmul_expert", "bias");
  const shaders::MatmulExpert& shader =
      variant.choose(shaders::matmul_expert, shaders::matmul_expert_subgroup, shaders::matmul_expert_texel);
  Matrix all = weights;
  all.rows = experts.count * weights.tiles() * TILE_ROWS;
  for (const Matrix::Slice& slice : all.slices(plan.slice_bytes))
    recorder.dispatch(
        shader,
        shaders::MatmulExpert::Constants{
            .format = variant.format, .tokens = variant.tokens, .split = variant.split, .row_tiles = variant.row_tiles},
        shaders::MatmulExpert::Bindings{
            .words = slice.view, .inputs = x, .state = state, .y = y, .chosen = chosen, .biases = bias},
        abi::MatmulExpertPush{weights.cols, weights.rows, weights.tiles(), slice.row_base / TILE_ROWS,
                              slice.rows / TILE_ROWS, in_stride, out_stride, experts.used, sums,
                              bias.buffer != nullptr},
        {ceil_div(weights.tiles(), plan.row_tiles), tokens, sums ? 1 : experts.used});
}

}  // namespace weft::ops
