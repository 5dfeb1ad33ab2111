#include <algorithm>
#include <bit>

#include "ops/rows.h"

#include "matmul.spv.h"
#include "matmul_tiled.spv.h"

namespace weft::ops {

Input Input::normed(const NormShape& shape, const View& x, const View& weight) {
  Input input(x);
  input.kind = INPUT_NORMED;
  input.norm = shape;
  input.weight = weight;
  return input;
}

Input Input::gated(Activation activation, const View& gate_up) {
  Input input(gate_up);
  input.kind = INPUT_GATED;
  input.activation = activation;
  return input;
}

// Where every lane reads every input, as on a GPU, each would norm or activate all of them; subgroups that share do
// not.
bool can_fuse(const Plan& plan, const Input& input, uint32_t cols, uint32_t tokens) {
  if (input.kind == INPUT_PLAIN) return true;
  const bool known = input.kind == INPUT_GATED || input.norm.kind == NormKind::rms;
  return known && plan.texel_products && plan.split == 1 && tokens == 1 && cols % BLOCK == 0;
}

namespace {

// More tokens than a lane accumulates, on a GPU. Shapes were checked.
void multiply_tiles(Recorder& recorder, const Matrix& weights, const View& state, const View& x, const View& y,
                    uint32_t tokens, Output output) {
  const Plan& plan = recorder.device().plan();
  const uint32_t tile = std::min(plan.tile_tokens, std::max(std::bit_ceil(tokens), 16u));
  const bool biased = weights.bias.buffer != nullptr;
  const bool int8 = plan.int8_inputs && weights.format != Format::f16;
  const KernelSpec spec = {int8              ? shaders::matmul_tiled_int8
                           : plan.half_tiles ? shaders::matmul_tiled_fp16
                                             : shaders::matmul_tiled,
                           {static_cast<uint32_t>(weights.format), tile, biased, output == Output::add}};
  for (const Matrix::Slice& slice : weights.slices(plan.slice_bytes)) {
    const abi::MatmulPush push = {
        weights.cols, slice.rows, slice.row_base, stride_of(weights.cols), stride_of(weights.rows), 0, 0, tokens};
    recorder.dispatch(spec, {slice.view, x, state, y, biased ? weights.bias : state}, push,
                      {ceil_div(slice.rows, TILE_ROWS), ceil_div(tokens, tile)});
  }
}

}  // namespace

void matmul(Recorder& recorder, const Matrix& weights, const View& state, const Input& input, const View& y,
            uint32_t tokens, Output output) {
  const Plan& plan = recorder.device().plan();
  const RowsVariant variant = rows_variant(plan, weights, tokens);
  const View& x = input.x;
  const uint32_t in_stride = stride_of(weights.cols), out_stride = stride_of(weights.rows);
  require(weights.layout == Layout::values, "matmul", "the matrix is a vocabulary table");
  const bool tiled = plan.tile_tokens > 0 && tokens > plan.block_tokens;
  require(tiled || tokens % variant.tokens == 0, "matmul", "a pass is no whole number of token groups");
  require(can_fuse(plan, input, weights.cols, tokens), "matmul", "an input that cannot be fused");
  const uint64_t x_bytes =
      input.kind == INPUT_GATED ? uint64_t{stride_of(2 * weights.cols)} * 4 : uint64_t{tokens} * in_stride * 4;
  require_bytes(x, x_bytes, "matmul", "x");
  require_bytes(y, uint64_t{tokens} * out_stride * 4, "matmul", "y");
  if (input.kind == INPUT_NORMED) require_bytes(input.weight, uint64_t{weights.cols} * 4, "matmul", "norm weight");
  const bool biased = weights.bias.buffer != nullptr;
  if (biased) require_bytes(weights.bias, uint64_t{weights.rows} * 4, "matmul", "bias");
  if (tiled) return multiply_tiles(recorder, weights, state, x, y, tokens, output);
  KernelSpec spec = variant.kernel(shaders::matmul, shaders::matmul_subgroup, shaders::matmul_texel);
  spec.constants.insert(spec.constants.end(),
                        {biased, output == Output::add, input.kind, static_cast<uint32_t>(input.activation)});
  const View& bias = biased ? weights.bias : state;
  const View& norm_weight = input.kind == INPUT_NORMED ? input.weight : x;
  for (const Matrix::Slice& slice : weights.slices(plan.slice_bytes)) {
    const abi::MatmulPush push = {weights.cols, slice.rows, slice.row_base,     in_stride,
                                  out_stride,   0,          input.norm.epsilon, tokens};
    const Groups groups = {tokens / variant.tokens, ceil_div(slice.rows, variant.group_rows)};
    const View inputs = x.part(0, x_bytes);
    if (variant.texel)
      recorder.dispatch(spec, {slice.view, inputs, state, y, bias, norm_weight}, push, groups);
    else
      recorder.dispatch(spec, {slice.view, inputs, state, y, bias}, push, groups);
  }
}

}  // namespace weft::ops
