#include <algorithm>
#include <bit>

#include "ops/rows.h"

#include "matmul.spv.h"
#include "matmul_matrix.spv.h"
#include "matmul_tiled.spv.h"

namespace weft::ops {

uint32_t begun_stride(uint32_t cols) { return NORM_SUMS_AT(cols) + stride_of(ceil_div(cols, 8)); }

bool uses_matrices(const Plan& plan) { return plan.matrix_side > 0 && !shaders::matmul_matrix.code.empty(); }

bool can_fuse(const Plan& plan, uint32_t tokens) { return plan.tile_tokens == 0 || tokens <= plan.block_tokens; }

uint32_t norm_sums(const Plan& plan, uint32_t rows) {
  return ceil_div(rows, plan.texel_products ? matmul_rows(plan) : 8);
}

bool can_begin_norm(const Plan& plan, const Matrix& weights, uint32_t tokens) {
  return can_fuse(plan, tokens) && weights.slices(plan.slice_bytes).size() == 1;
}

// The gates' tiles are followed by those of what they gate, in one binding. Either half has one format.
bool can_gate(const Plan& plan, const Matrix& weights, uint32_t tokens) {
  const bool halves = weights.first_rows == 0 || weights.first_rows == weights.rows / 2;
  return can_fuse(plan, tokens) && weights.rows % (2 * TILE_ROWS) == 0 && halves &&
         weights.slices(plan.slice_bytes).size() == 1;
}

namespace {

bool rounds_inputs(const Plan& plan, const Matrix& weights) {
  return plan.int8_inputs && info(weights.format).int8_inputs &&
         (weights.first_rows == 0 || info(weights.second).int8_inputs);
}

// The constant SECOND_TILE of the kernels for many tokens, and of those for few.
constexpr size_t kSecondOfTiles = 4, kSecondOfRows = 13;

// Sets the constants of the formats: constant 0, and two from `second` on.
void set_formats(KernelSpec& spec, size_t second, const Matrix::Slice& slice) {
  spec.constants[0] = static_cast<uint32_t>(slice.format);
  spec.constants[second] = slice.first_rows / TILE_ROWS;
  spec.constants[second + 1] = static_cast<uint32_t>(slice.second);
}

KernelSpec tile_kernel(const Plan& plan, const Matrix& weights, std::vector<uint32_t> constants) {
  if (rounds_inputs(plan, weights)) return {shaders::matmul_tiled_int8, constants};
  if (plan.half_tiles) return {shaders::matmul_tiled_fp16, constants};
  if (plan.fewest_registers) constants.push_back(true);
  return {shaders::matmul_tiled, constants};
}

// More tokens than a lane accumulates, on a GPU. Shapes were checked.
void multiply_tiles(Recorder& recorder, const Matrix& weights, const View& state, const Input& input, const View& y,
                    uint32_t tokens, Output output) {
  const Device& device = recorder.device();
  const Plan& plan = device.plan();
  // Unpacking super-blocks takes registers, of which a tile of 64 tokens with rounded inputs leaves too few on RDNA 3.
  const bool native = is_native(weights.format) || (weights.first_rows > 0 && is_native(weights.second));
  const uint32_t most = rounds_inputs(plan, weights) && native ? 32 : plan.tile_tokens;
  const uint32_t tile = std::min({plan.tile_tokens, most, std::max(std::bit_ceil(tokens), 16u)});
  const bool biased = weights.bias.buffer != nullptr;
  // Cooperative matrices know one minimum a block, and Q2_K has two.
  const bool matrices =
      uses_matrices(plan) && !rounds_inputs(plan, weights) && input.halves.bytes > 0 && !weights.has(Format::q2k);
  if (matrices) halves(recorder, weights.cols, state, input.x, input.halves, tokens);
  std::vector<uint32_t> constants = {static_cast<uint32_t>(weights.format), tile, biased, output == Output::add, 0, 0};
  if (matrices) constants.insert(constants.end(), {plan.matrix_side, TILE_THREADS / device.caps().subgroup_size});
  KernelSpec spec =
      matrices ? KernelSpec{shaders::matmul_matrix, constants, true} : tile_kernel(plan, weights, constants);
  const uint32_t in_stride = matrices ? halves_stride(weights.cols) : stride_of(weights.cols);
  for (const Matrix::Slice& slice : weights.slices(plan.slice_bytes)) {
    set_formats(spec, kSecondOfTiles, slice);
    const abi::MatmulPush push = {
        weights.cols, slice.rows, slice.row_base, in_stride, stride_of(weights.rows), 0, tokens, 0, 0, 0};
    recorder.dispatch(spec, {slice.view, matrices ? input.halves : input.x, state, y, biased ? weights.bias : state},
                      push, {ceil_div(slice.rows, TILE_ROWS), ceil_div(tokens, tile)});
  }
}

// Blocks that a lane loads before it multiplies the first: two for a single token, so that enough bytes are on their
// way (apps/bench/roofline.py). Lanes with more tokens or f16 weights, and those of devices with few registers, hold
// enough already.
uint32_t blocks_at_once(const Plan& plan, const Matrix& weights, const RowsVariant& variant) {
  const bool few = variant.texel || variant.tokens > 1 || plan.block_tokens < 4 || weights.has(Format::f16);
  return few ? 1 : 2;
}

// Words of a token's inputs that a workgroup brings to shared memory. For q4 it was no faster on an H100.
uint32_t staged_words(const Plan& plan, const Matrix& weights, const RowsVariant& variant) {
  const bool q8 = weights.format == Format::q8 && weights.first_rows == 0;
  const bool stages = variant.tokens == 1 && q8 && weights.cols <= plan.staged_cols;
  return stages ? weights.blocks() * (BLOCK / 4) : 0;
}

// Further work of a product on its results.
struct Results {
  Output output = Output::write;
  std::optional<Activation> gates = {};
  const BeginNorm* begin = nullptr;
};

void multiply(Recorder& recorder, const Matrix& weights, const View& state, const Input& input, const View& y,
              uint32_t tokens, const Results& results) {
  const Plan& plan = recorder.device().plan();
  RowsVariant variant = rows_variant(plan, weights, tokens);
  const uint32_t in_stride = input.end ? begun_stride(weights.cols) : stride_of(weights.cols);
  const uint32_t out_cols = results.gates ? weights.rows / 2 : weights.rows, out_stride = stride_of(out_cols);
  variant.spread(plan, weights, out_cols);
  require(weights.layout == Layout::values, "matmul", "the matrix is a vocabulary table");
  const uint64_t x_bytes = uint64_t{tokens} * in_stride * 4;
  require_bytes(input.x, x_bytes, "matmul", "x");
  require_bytes(y, uint64_t{tokens} * out_stride * 4, "matmul", "y");
  const bool biased = weights.bias.buffer != nullptr, tiled = !can_fuse(plan, tokens);
  if (biased) require_bytes(weights.bias, uint64_t{weights.rows} * 4, "matmul", "bias");
  require(!tiled || !(input.end || results.gates || results.begin), "matmul", "a pass of too many tokens to fuse");
  if (tiled) return multiply_tiles(recorder, weights, state, input, y, tokens, results.output);
  require(tokens % variant.tokens == 0, "matmul", "a pass is no whole number of token groups");
  if (input.end)
    require(input.end->shape.cols == weights.cols && input.end->shape.kind == NormKind::rms, "matmul", "another norm");
  const std::vector<Matrix::Slice> slices = weights.slices(plan.slice_bytes);
  if (results.begin) {
    require(can_begin_norm(plan, weights, tokens), "matmul", "a norm of a matrix in slices");
    require_bytes(results.begin->weight, uint64_t{weights.rows} * 4, "matmul", "norm weight");
    require_bytes(results.begin->rows, uint64_t{tokens} * begun_stride(weights.rows) * 4, "matmul", "begun norm");
  }
  if (results.gates) {
    require(can_gate(plan, weights, tokens), "matmul", "gates that are no whole tiles");
    variant.pair_tiles(plan, weights);
  }
  // matmul_int8 knows one format only.
  const bool rounded = rounds_inputs(plan, weights) && variant.uniform_parts && weights.first_rows == 0;
  KernelSpec spec =
      variant.kernel(shaders::matmul, rounded ? shaders::matmul_int8 : shaders::matmul_subgroup, shaders::matmul_texel);
  spec.constants.insert(
      spec.constants.end(),
      {results.gates.has_value(), static_cast<uint32_t>(results.gates.value_or(Activation::silu)), biased,
       results.output == Output::add, input.end.has_value(), results.begin != nullptr, variant.lane_rows,
       blocks_at_once(plan, weights, variant), staged_words(plan, weights, variant), 0, 0});
  const View& bias = biased ? weights.bias : state;
  for (const Matrix::Slice& slice : slices) {
    set_formats(spec, kSecondOfRows, slice);
    const abi::MatmulPush push = {weights.cols,
                                  slice.rows,
                                  slice.row_base,
                                  in_stride,
                                  out_stride,
                                  0,
                                  tokens,
                                  input.end ? input.end->sums : 0,
                                  input.end ? input.end->shape.epsilon : 0,
                                  begun_stride(weights.rows)};
    recorder.dispatch(spec,
                      {slice.view, input.x.part(0, x_bytes), state, y, bias,
                       results.begin ? results.begin->weight : state, results.begin ? results.begin->rows : y},
                      push, {tokens / variant.tokens, ceil_div(slice.rows, variant.group_rows)});
  }
}

}  // namespace

void matmul(Recorder& recorder, const Matrix& weights, const View& state, const Input& input, const View& y,
            uint32_t tokens, Output output, const BeginNorm* begin) {
  multiply(recorder, weights, state, input, y, tokens, {.output = output, .begin = begin});
}

void matmul_gated(Recorder& recorder, const Matrix& weights, Activation activation, const View& state,
                  const Input& input, const View& y, uint32_t tokens) {
  multiply(recorder, weights, state, input, y, tokens, {.gates = activation});
}

}  // namespace weft::ops
