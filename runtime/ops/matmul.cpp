#include <algorithm>
#include <bit>

#include "ops/rows.h"

#include "matmul.spv.h"
#include "matmul_matrix.spv.h"
#include "matmul_tiled.spv.h"

namespace weft::ops {

uint32_t begun_stride(uint32_t cols) { return NORM_SUMS_AT(cols) + stride_of(ceil_div(cols, 8)); }

bool uses_matrices(const Plan& plan) { return plan.matrix_side > 0; }

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

const shaders::MatmulTiled& tile_shader(const Plan& plan, const Matrix& weights) {
  if (rounds_inputs(plan, weights)) return shaders::matmul_tiled_int8;
  return plan.half_tiles ? shaders::matmul_tiled_fp16 : shaders::matmul_tiled;
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
  const bool biased = weights.bias.buffer != nullptr, adds = output == Output::add;
  // Cooperative matrices know one minimum a block, and Q2_K has two.
  const bool matrices =
      uses_matrices(plan) && !rounds_inputs(plan, weights) && input.halves.bytes > 0 && !weights.has(Format::q2k);
  if (matrices) halves(recorder, weights.cols, state, input.x, input.halves, tokens);
  const uint32_t in_stride = matrices ? halves_stride(weights.cols) : stride_of(weights.cols);
  for (const Matrix::Slice& slice : weights.slices(plan.slice_bytes)) {
    const abi::MatmulPush push = {
        weights.cols, slice.rows, slice.row_base, in_stride, stride_of(weights.rows), 0, tokens, 0, 0, 0};
    const Groups groups = {ceil_div(slice.rows, TILE_ROWS), ceil_div(tokens, tile)};
    const uint32_t second_tile = slice.first_rows / TILE_ROWS;
    if (matrices)
      recorder.dispatch(shaders::matmul_matrix,
                        shaders::MatmulMatrix::Constants{.format = slice.format,
                                                         .tokens = tile,
                                                         .bias = biased,
                                                         .add = adds,
                                                         .second_tile = second_tile,
                                                         .second_format = slice.second,
                                                         .side = plan.matrix_side,
                                                         .subgroups = TILE_THREADS / device.caps().subgroup_size},
                        shaders::MatmulMatrix::Bindings{
                            .words = slice.view, .inputs = input.halves, .state = state, .y = y, .bias = weights.bias},
                        push, groups);
    else
      recorder.dispatch(tile_shader(plan, weights),
                        shaders::MatmulTiled::Constants{.format = slice.format,
                                                        .tokens = tile,
                                                        .bias = biased,
                                                        .add = adds,
                                                        .second_tile = second_tile,
                                                        .second_format = slice.second,
                                                        .fewest_registers = plan.fewest_registers},
                        shaders::MatmulTiled::Bindings{
                            .words = slice.view, .inputs = input.x, .state = state, .y = y, .bias = weights.bias},
                        push, groups);
  }
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
  const shaders::Matmul& shader =
      variant.choose(shaders::matmul, rounded ? shaders::matmul_int8 : shaders::matmul_subgroup, shaders::matmul_texel);
  for (const Matrix::Slice& slice : slices) {
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
    recorder.dispatch(shader,
                      shaders::Matmul::Constants{.format = slice.format,
                                                 .tokens = variant.tokens,
                                                 .split = variant.split,
                                                 .row_tiles = variant.row_tiles,
                                                 .gated = results.gates.has_value(),
                                                 .activation = results.gates.value_or(Activation::silu),
                                                 .bias = biased,
                                                 .add = results.output == Output::add,
                                                 .ends_norm = input.end.has_value(),
                                                 .begins_norm = results.begin != nullptr,
                                                 .lane_rows = variant.lane_rows,
                                                 .step = blocks_at_once(plan, weights, variant),
                                                 .staged = staged_words(plan, weights, variant),
                                                 .second_tile = slice.first_rows / TILE_ROWS,
                                                 .second_format = slice.second,
                                                 .exact_halves = plan.uniform_parts},
                      shaders::Matmul::Bindings{.words = slice.view,
                                                .inputs = input.x.part(0, x_bytes),
                                                .state = state,
                                                .y = y,
                                                .bias = weights.bias,
                                                .norm_weights = results.begin ? results.begin->weight : View{},
                                                .begun = results.begin ? results.begin->rows : View{}},
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
