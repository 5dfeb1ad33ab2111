#include "reference/matmul.h"

#include "reference/activate.h"

#include "support/matmul_variants.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class MatmulTest : public GpuTest {};

struct Shape {
  Format format;
  uint32_t rows, cols, tokens, active;
  ops::Output output = ops::Output::write;
  bool biased = false;
  float scale = 1;  // of the inputs
};

// The variant that a plan should get.
std::string variant_of(const Plan& plan, const Shape& shape, uint32_t results) {
  const bool rounded = plan.int8_inputs && info(shape.format).int8_inputs;
  if (plan.tile_tokens == 0 || shape.tokens <= plan.block_tokens)
    return rounded && rounds_few(plan) ? "matmul int8"
                                       : layer_product(plan, {shape.format, shape.rows, shape.cols}, results);
  if (rounded) return "matmul tiled int8";
  if (ops::uses_matrices(plan)) return reduction("halves", plan) + ", matmul matrix";
  return plan.half_tiles ? "matmul tiled fp16" : "matmul tiled";
}

// Error of a product of tiles of halves, as a share of the sum of the products' magnitudes: a value and an input are
// rounded to 11 bits each, and so are sums of eight products, whose errors largely cancel.
constexpr double kHalfError = 3 * 0x1p-11;
double allowed_error(const Plan& plan, const Shape& shape) {
  const bool tiled = plan.tile_tokens > 0 && shape.tokens > plan.block_tokens;
  const bool halves = tiled && plan.half_tiles && !ops::uses_matrices(plan);
  return halves ? kHalfError : dot_error(shape.cols);
}

void check_matmul(const Tuning& tuning, const Shape& shape) {
  SCOPED_TRACE(tuning.name() + " " + name(shape.format) + " rows " + std::to_string(shape.rows) + " cols " +
               std::to_string(shape.cols) + " active " + std::to_string(shape.active) + " of " +
               std::to_string(shape.tokens) + (shape.output == ops::Output::add ? " add" : "") +
               (shape.biased ? " biased" : ""));
  const auto device = open_device(tuning);
  Random random(shape.rows + shape.cols);
  Tiled weights = make_tiled(device, shape.format, shape.rows, shape.cols, shape.rows * 7 + shape.cols);
  const Activations x = make_activations(device, shape.tokens, shape.active, shape.cols, random, shape.scale);
  const Buffer state = make_state(device, 3, 3 + shape.active, 1000);
  const uint32_t out_stride = stride_of(shape.rows);
  reference::Rows want = reference::matmul(weights.values, x.values);
  reference::Rows magnitude = reference::matmul_magnitude(weights.values, x.values);
  Buffer y = poisoned(device, "y", uint64_t{shape.tokens} * out_stride), bias;
  if (shape.biased) {
    const std::vector<float> biases = random.normals(shape.rows);
    bias = upload(device, "bias", biases);
    weights.matrix.bias = bias;
    for (uint32_t t = 0; t < shape.active; ++t)
      for (uint32_t r = 0; r < shape.rows; ++r) {
        want.row(t)[r] += biases[r];
        magnitude.row(t)[r] += std::abs(biases[r]);
      }
  }
  std::vector<float> before(size_t{shape.tokens} * out_stride, std::bit_cast<float>(kPoison));
  if (shape.output == ops::Output::add) {
    before = random.normals(before.size());
    y = upload(device, "y", before);
    for (uint32_t t = 0; t < shape.active; ++t)
      for (uint32_t r = 0; r < shape.rows; ++r) {
        want.row(t)[r] += before[size_t{t} * out_stride + r];
        magnitude.row(t)[r] += std::abs(before[size_t{t} * out_stride + r]);
      }
  }
  ops::Input input = x.buffer;
  const Buffer halves = poisoned(device, "halves", uint64_t{shape.tokens} * ops::halves_stride(shape.cols));
  input.halves = halves;
  run_op(device, variant_of(device->plan(), shape, shape.rows), [&](Recorder& recorder) {
    ops::matmul(recorder, weights.matrix, state, input, y, shape.tokens, shape.output);
  });
  std::vector<float> got = download_as<float>(device, y);
  std::vector<double> expected = padded(want, shape.tokens, out_stride);
  // Within the last block of tokens, rows after the end may hold anything. Elsewhere memory stays as it was.
  const uint32_t block = shape.tokens == 1 ? 1 : device->plan().block_tokens;
  const uint32_t computed = std::min(shape.tokens, (shape.active + block - 1) / block * block);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t token = i / out_stride;
    const bool any = token >= shape.active && token < computed && i % out_stride < shape.rows;
    const bool kept = std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(before[i]);
    if (std::isnan(expected[i]) && (any || kept)) got[i] = std::bit_cast<float>(kPoison);
  }
  std::vector<double> allowed = padded(magnitude, shape.tokens, out_stride);
  for (double& value : allowed) value *= allowed_error(device->plan(), shape);
  EXPECT_TRUE(close_to(got, expected, allowed));
}

TEST_F(MatmulTest, OneToken) {
  for (const Tuning& tuning : product_tunings(5))
    for (const Format format : kFormats)
      for (const uint32_t rows : {1u, 3u, 65u, 300u})
        for (const uint32_t cols : {1u, 8u, 31u, 32u, 33u, 65u, 172u, 576u})
          check_matmul(tuning, {format, rows, cols, 1, 1});
}

// Inputs in shared memory: where they are just few enough, and where they are one too many.
TEST_F(MatmulTest, StagedInputs) {
  for (const uint32_t cols : {1u, 33u, 575u, 576u, 577u, 2048u})
    for (const uint32_t rows : {3u, 65u, 300u})
      check_matmul({.row_tiles = 1, .texel_products = false, .staged_cols = cols < 2048 ? 576u : 2048u},
                   {Format::q8, rows, cols, 1, 1});
}

// Error of sums of whole inputs, as a multiple of that of sums of floats: q4 multiplies integers of 0 to 15 and adds
// the minima separately, terms of up to eight times what remains of both.
double whole_error(Format format) { return format == Format::q4 ? 8 : 1; }

// Inputs that 8 bits and a scale for each block hold.
reference::Rows whole_inputs(uint32_t tokens, uint32_t cols, Random& random) {
  reference::Rows inputs(tokens, cols);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t begin = 0; begin < cols; begin += BLOCK) {
      const auto block = inputs.row(t).subspan(begin, std::min(cols - begin, uint32_t{BLOCK}));
      const double peak = std::ldexp(127, static_cast<int>(random.below(9)) - 4);
      for (double& value : block) value = peak / 127 * (random.below(255) - 127.0);
      block[0] = random.word() & 1 ? peak : -peak;
    }
  return inputs;
}

// Products with gates: two halves of rows, of which one row each makes a result.
void check_gated(const Tuning& tuning, Shape shape, ops::Activation activation = ops::Activation::silu) {
  const auto device = open_device(tuning);
  shape.tokens = fusible(device->plan(), shape.tokens);
  const uint32_t results = shape.rows / 2, stride = stride_of(results);
  SCOPED_TRACE(tuning.name() + " " + name(shape.format) + " gates " + std::to_string(results) + " cols " +
               std::to_string(shape.cols) + " tokens " + std::to_string(shape.tokens));
  Random random(shape.rows * 3 + shape.cols);
  Tiled weights = make_tiled(device, shape.format, shape.rows, shape.cols, shape.rows * 7 + shape.cols);
  const Activations x = tuning.int8_inputs
                            ? make_activations(device, shape.tokens, whole_inputs(shape.tokens, shape.cols, random))
                            : make_activations(device, shape.tokens, shape.tokens, shape.cols, random, shape.scale);
  const Buffer state = make_state(device, 3, 3 + shape.tokens, 1000);
  const Buffer y = poisoned(device, "y", uint64_t{shape.tokens} * stride);
  const std::vector<float> biases = random.normals(shape.rows);
  const Buffer bias = upload(device, "bias", biases);
  if (shape.biased) weights.matrix.bias = bias;
  ASSERT_TRUE(ops::can_gate(device->plan(), weights.matrix, shape.tokens));
  run_op(device, variant_of(device->plan(), shape, results), [&](Recorder& recorder) {
    ops::matmul_gated(recorder, weights.matrix, activation, state, x.buffer, y, shape.tokens);
  });
  reference::Rows products = reference::matmul(weights.values, x.values);
  reference::Rows magnitudes = reference::matmul_magnitude(weights.values, x.values);
  if (shape.biased)
    for (uint32_t t = 0; t < shape.tokens; ++t)
      for (uint32_t r = 0; r < shape.rows; ++r) {
        products.row(t)[r] += biases[r];
        magnitudes.row(t)[r] += std::abs(biases[r]);
      }
  const reference::Rows want = reference::activate(static_cast<reference::Activation>(activation), true, products);
  std::vector<double> allowed(size_t{shape.tokens} * stride, 0);
  for (uint32_t t = 0; t < shape.tokens; ++t)
    for (uint32_t r = 0; r < results; ++r) {
      // |f'| < 1.2 for all activations, so an error of the gate grows by no more.
      const double gate = magnitudes.row(t)[r], up = magnitudes.row(t)[results + r];
      const double exact = dot_error(shape.cols) * (tuning.int8_inputs ? whole_error(shape.format) : 1);
      allowed[size_t{t} * stride + r] = 2.2 * gate * up * (exact + 16 * kRounding);
    }
  EXPECT_TRUE(close_to(download_as<float>(device, y), padded(want, shape.tokens, stride), allowed));
}

TEST_F(MatmulTest, Gates) {
  const auto check_shapes = [](const Tuning& tuning, std::initializer_list<uint32_t> widths) {
    for (const Format format : kFormats)
      for (const uint32_t rows : {128u, 384u, 1152u})
        for (const uint32_t cols : widths) {  // a pipeline each
          check_gated(tuning, {format, rows, cols, 1, 1});
          check_gated(tuning, {format, rows, cols, 4, 4});
        }
  };
  check_shapes({}, {1u, 33u, 96u, 576u});
  for (const Tuning& tuning : product_tunings()) check_shapes(tuning, {33u});
  for (const uint32_t split : {1u, 4u}) {
    const Tuning fewest = {.split = split, .row_tiles = 1, .texel_products = false, .fewest_registers = true};
    for (const Format format : kFormats) {
      for (const uint32_t cols : {1u, 576u}) check_gated(fewest, {format, 384, cols, 1, 1});
      check_gated(fewest, {.format = format, .rows = 1152, .cols = 96, .tokens = 4, .active = 4, .biased = true});
    }
  }
  const Tuning apart = {.split = 4, .row_tiles = 1, .texel_products = false, .gates_apart = true};
  for (const Format format : {Format::q6, Format::q2k}) check_gated(apart, {format, 384, 768, 1, 1});
  for (const ops::Activation activation : {ops::Activation::gelu, ops::Activation::gelu_tanh, ops::Activation::relu})
    check_gated({}, {Format::f16, 128, 96, 1, 1}, activation);
  for (const Format format : kFormats) {
    check_gated({.row_tiles = 8}, {format, 384, 96, 1, 1});
    check_gated({}, {.format = format, .rows = 384, .cols = 96, .tokens = 2, .active = 2, .biased = true});
  }
}

// Two groups of a tile's rows a lane.
TEST_F(MatmulTest, EightRowsALane) {
  for (const Format format : kFormats)
    for (const uint32_t rows : {65u, 300u, 600u}) check_matmul({.row_tiles = 8}, {format, rows, 172, 1, 1});
}

TEST_F(MatmulTest, Chunks) {
  for (const Tuning& tuning : product_tunings())
    for (const Format format : kFormats)
      for (const uint32_t active : {1u, 2u, 8u, 9u, 23u, 32u}) {
        check_matmul(tuning, {format, 65, 33, 32, active});
        check_matmul(tuning, {format, 100, 172, 32, active});
      }
}

TEST_F(MatmulTest, FewTokens) {
  for (const Tuning& tuning : product_tunings(5))
    for (const Format format : {Format::f16, Format::q8}) {
      check_matmul(tuning, {format, 65, 172, 2, 2});
      check_matmul(tuning, {format, 65, 172, 4, 3});
    }
}

// Prompts on GPUs: tiles of tokens in shared memory, whole ones and the ends of passes, and tiles for smaller passes.
TEST_F(MatmulTest, Tiles) {
  for (const Format format : kFormats) {
    for (const uint32_t tile : {16u, 32u, 64u})
      for (const uint32_t active : {1u, 15u, 16u, 17u, 63u, 64u})
        check_matmul({.block_tokens = 8, .tile_tokens = tile, .half_tiles = false, .matrices = false},
                     {format, 100, 172, 64, active});
    for (const uint32_t tokens : {9u, 16u, 24u, 100u})
      check_matmul({.block_tokens = 8, .tile_tokens = 64, .half_tiles = false, .matrices = false},
                   {format, 65, 96, tokens, tokens});
    for (const uint32_t rows : {1u, 64u, 300u})
      for (const uint32_t cols : {1u, 31u, 32u, 33u, 65u, 576u})
        check_matmul({.tile_tokens = 64, .half_tiles = false, .matrices = false}, {format, rows, cols, 64, 40});
    for (const uint32_t cols : {1u, 33u, 172u, 576u})
      check_matmul(
          {.block_tokens = 8, .tile_tokens = 16, .half_tiles = false, .matrices = false, .fewest_registers = true},
          {format, 100, cols, 64, 63});
    for (const ops::Output output : {ops::Output::write, ops::Output::add})
      for (const bool biased : {false, true})
        check_matmul({.tile_tokens = 64, .half_tiles = false, .matrices = false},
                     {format, 130, 172, 64, 50, output, biased});
    check_matmul({.tile_tokens = 64, .half_tiles = false, .matrices = false, .slice_bytes = 1 << 20},
                 {format, 20000, 64, 24, 20, ops::Output::add, true});
  }
}

// By cooperative matrices, as exact as by floats.
TEST_F(MatmulTest, Matrices) {
  if (!ops::uses_matrices(open_device({.matrices = true})->plan()))
    GTEST_SKIP() << "the device has no cooperative matrices, or the build's glslang does not know them";
  for (const Format format : kFormats) {
    for (const uint32_t tile : {16u, 32u, 64u})
      for (const uint32_t active : {1u, 17u, 64u})
        check_matmul({.block_tokens = 8, .tile_tokens = tile, .matrices = true}, {format, 100, 172, 64, active});
    const Tuning tuning = {.tile_tokens = 64, .matrices = true};
    for (const uint32_t rows : {1u, 300u})
      for (const uint32_t cols : {1u, 33u, 576u}) check_matmul(tuning, {format, rows, cols, 64, 40});
    check_matmul(tuning, {format, 130, 172, 64, 50, ops::Output::write, true});
    check_matmul(tuning, {format, 130, 172, 64, 50, ops::Output::add, false});
    for (const uint32_t active : {64u, 65u, 150u}) check_matmul(tuning, {format, 180, 172, 150, active});
    // Inputs far beyond what a half holds, either way.
    for (const float scale : {1e-30f, 1e-6f, 1e6f, 1e30f})
      check_matmul(tuning, {format, 65, 96, 32, 32, ops::Output::write, false, scale});
    check_matmul({.tile_tokens = 64, .matrices = true, .slice_bytes = 1 << 20},
                 {format, 20000, 64, 24, 20, ops::Output::add, true});
  }
}

TEST_F(MatmulTest, HalfTiles) {
  if (!open_device()->caps().fp16) GTEST_SKIP() << "the device does not compute with halves";
  for (const Format format : kFormats) {
    for (const uint32_t tile : {16u, 64u})
      check_matmul({.block_tokens = 8, .tile_tokens = tile, .half_tiles = true, .matrices = false},
                   {format, 100, 172, 64, 50});
    const Tuning tuning = {.tile_tokens = 64, .half_tiles = true, .matrices = false};
    for (const uint32_t cols : {1u, 31u, 33u, 65u, 576u}) check_matmul(tuning, {format, 65, cols, 64, 40});
    check_matmul(tuning, {format, 130, 172, 64, 50, ops::Output::add, true});
    // Inputs far beyond what a half holds, either way.
    for (const float scale : {1e-30f, 1e-6f, 1e6f, 1e30f})
      check_matmul(tuning, {format, 65, 96, 32, 32, ops::Output::write, false, scale});
  }
}

// Cost of halves: the norm of all outputs' errors, divided by the norm of the outputs.
TEST_F(MatmulTest, HalfTilesAreOffByLittle) {
  const auto device = open_device({.tile_tokens = 64, .half_tiles = true, .matrices = false});
  if (!device->caps().fp16) GTEST_SKIP() << "the device does not compute with halves";
  for (const Format format : kFormats) {
    Random random(11);
    const Tiled weights = make_tiled(device, format, 256, 576, 3);
    const Activations x = make_activations(device, 64, 64, 576, random);
    const Buffer state = make_state(device, 0, 64, 1000), y = poisoned(device, "y", 64 * 256);
    run_op(device, "matmul tiled fp16", [&](Recorder& recorder) {
      ops::matmul(recorder, weights.matrix, state, x.buffer, y, 64, ops::Output::write);
    });
    const std::vector<float> got = download_as<float>(device, y);
    const reference::Rows want = reference::matmul(weights.values, x.values);
    double error = 0, total = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += (got[i] - want.values[i]) * (got[i] - want.values[i]);
      total += want.values[i] * want.values[i];
    }
    RecordProperty(name(format), std::to_string(std::sqrt(error / total)));
    EXPECT_LE(std::sqrt(error / total), 7e-4) << name(format);
    EXPECT_GT(std::sqrt(error / total), 1e-5) << name(format) << ": were they halves?";
  }
}

// Weights at the edge of what a half holds, and zeros, times inputs of which one stands far out of its block.
void check_large(const Tuning& tuning) {
  const auto device = open_device(tuning);
  constexpr uint32_t kRows = 64, kCols = 64, kTokens = 32;
  Random random(5);
  std::vector<float> values(kRows * kCols);
  for (float& value : values) value = half_to_float(float_to_half(random.uniform(-65504, 65504)));
  std::fill_n(values.begin() + kCols, BLOCK, 0.0f);  // a block of zeros
  std::fill_n(values.begin() + 3 * kCols, kCols, 0.0f);
  const TensorView tensor = {"large", DType::f32, {kRows, kCols}, std::as_bytes(std::span<const float>(values))};
  const Tiled weights = tile(device, Format::f16, kRows, kCols, tensor);
  reference::Rows matrix(kRows, kCols), inputs(kTokens, kCols);
  matrix.values.assign(values.begin(), values.end());
  for (double& value : inputs.values) value = random.normal();
  for (uint32_t t = 0; t < kTokens; ++t) inputs.row(t)[t] = 40000;
  const Activations x = make_activations(device, kTokens, inputs);
  const Buffer state = make_state(device, 0, kTokens, 1000), y = poisoned(device, "y", kTokens * stride_of(kRows));
  const Shape shape = {Format::f16, kRows, kCols, kTokens, kTokens};
  ops::Input input = x.buffer;
  const Buffer halves = poisoned(device, "halves", kTokens * ops::halves_stride(kCols));
  input.halves = halves;
  run_op(device, variant_of(device->plan(), shape, shape.rows), [&](Recorder& recorder) {
    ops::matmul(recorder, weights.matrix, state, input, y, kTokens, ops::Output::write);
  });
  std::vector<double> allowed = padded(reference::matmul_magnitude(matrix, inputs), kTokens, stride_of(kRows));
  for (double& value : allowed) value *= allowed_error(device->plan(), shape);
  EXPECT_TRUE(close_to(download_as<float>(device, y),
                       padded(reference::matmul(matrix, inputs), kTokens, stride_of(kRows)), allowed));
}

TEST_F(MatmulTest, HalfTilesDoNotOverflow) {
  const Tuning tuning = {.tile_tokens = 64, .half_tiles = true, .matrices = false};
  if (!open_device(tuning)->caps().fp16) GTEST_SKIP() << "the device does not compute with halves";
  check_large(tuning);
}

TEST_F(MatmulTest, MatricesDoNotOverflow) {
  const Tuning tuning = {.tile_tokens = 64, .matrices = true};
  if (!ops::uses_matrices(open_device(tuning)->plan()))
    GTEST_SKIP() << "the device has no cooperative matrices, or the build's glslang does not know them";
  check_large(tuning);
}

// Inputs of 8 bits. whole: they are such numbers, so that nothing is rounded; else each is off by half a step at most.
void check_int8(const Shape& shape, uint32_t tile, bool whole) {
  SCOPED_TRACE(std::string(name(shape.format)) + " rows " + std::to_string(shape.rows) + " cols " +
               std::to_string(shape.cols) + " active " + std::to_string(shape.active) + (whole ? " whole" : ""));
  const auto device = open_device({.block_tokens = 8, .tile_tokens = tile, .int8_inputs = true});
  if (!device->caps().int8_dot) GTEST_SKIP() << "the device has no integer dot products";
  Random random(shape.rows + shape.cols);
  const Tiled weights = make_tiled(device, shape.format, shape.rows, shape.cols, shape.rows * 7 + shape.cols);
  reference::Rows inputs = whole ? whole_inputs(shape.active, shape.cols, random)
                                 : reference::Rows(shape.active, shape.cols),
                  half_steps(shape.active, shape.cols);
  for (uint32_t t = 0; t < shape.active && !whole; ++t)
    for (uint32_t begin = 0; begin < shape.cols; begin += BLOCK) {
      const auto block = inputs.row(t).subspan(begin, std::min(shape.cols - begin, uint32_t{BLOCK}));
      double peak = 0;
      for (double& value : block) value = random.normal();
      for (const double value : block) peak = std::max(peak, std::abs(value));
      for (double& step : half_steps.row(t).subspan(begin, block.size())) step = peak / 254;
    }
  const Activations x = make_activations(device, shape.tokens, inputs);
  const uint32_t stride = stride_of(shape.rows);
  const Buffer state = make_state(device, 3, 3 + shape.active, 1000);
  const Buffer y = poisoned(device, "y", uint64_t{shape.tokens} * stride);
  run_op(device, variant_of(device->plan(), shape, shape.rows), [&](Recorder& recorder) {
    ops::matmul(recorder, weights.matrix, state, x.buffer, y, shape.tokens, ops::Output::write);
  });
  const std::vector<double> want = padded(reference::matmul(weights.values, inputs), shape.tokens, stride),
                            rounded =
                                padded(reference::matmul_magnitude(weights.values, half_steps), shape.tokens, stride);
  std::vector<double> allowed = padded(reference::matmul_magnitude(weights.values, inputs), shape.tokens, stride);
  const double exact = dot_error(shape.cols) * whole_error(shape.format);
  for (size_t i = 0; i < allowed.size(); ++i) allowed[i] = allowed[i] * exact + rounded[i];
  EXPECT_TRUE(close_to(download_as<float>(device, y), want, allowed));
}

TEST_F(MatmulTest, Int8Tiles) {
  for (const Format format : {Format::q8, Format::q4})
    for (const bool whole : {true, false}) {
      for (const uint32_t tile : {16u, 32u, 64u}) check_int8({format, 100, 172, 64, 50}, tile, whole);
      for (const uint32_t cols : {1u, 31u, 33u, 65u, 576u}) check_int8({format, 65, cols, 64, 40}, 64, whole);
    }
}

// Few tokens: a chunk of columns has 4,096 of one token, and 512 of eight.
TEST_F(MatmulTest, Int8OfFewTokens) {
  const Tuning tuning = {.block_tokens = 8, .tile_tokens = 64, .int8_inputs = true};
  const auto device = open_device(tuning);
  if (!device->plan().int8_inputs || !rounds_few(device->plan()))
    GTEST_SKIP() << "the plan rounds no inputs of few tokens";
  for (const Format format : {Format::q8, Format::q4}) {
    for (const bool whole : {true, false})
      for (const uint32_t tokens : {1u, 2u, 4u, 8u})
        for (const uint32_t cols : {1u, 31u, 33u, 65u, 172u, 576u, 4200u})
          check_int8({format, 100, cols, tokens, tokens}, 64, whole);
    for (const uint32_t cols : {33u, 576u})
      for (const uint32_t tokens : {1u, 4u}) {
        check_gated(tuning, {format, 1152, cols, tokens, tokens});
        check_gated(tuning,
                    {.format = format, .rows = 128, .cols = cols, .tokens = tokens, .active = tokens, .biased = true});
      }
  }
}

TEST_F(MatmulTest, OtherTokenBlocks) {
  for (const uint32_t block : {1u, 2u, 4u, 16u}) {
    Tuning tuning;
    tuning.block_tokens = block;
    for (const Format format : kFormats) check_matmul(tuning, {format, 70, 96, 32, 19});
  }
}

TEST_F(MatmulTest, Accumulates) {
  for (const Tuning& tuning : {Tuning{}, Tuning{.split = 4, .row_tiles = 1, .texel_products = false}})
    for (const Format format : kFormats) {
      check_matmul(tuning, {format, 65, 172, 1, 1, ops::Output::add});
      check_matmul(tuning, {format, 65, 172, 32, 19, ops::Output::add});
    }
}

TEST_F(MatmulTest, Biases) {
  Tuning sliced;
  sliced.slice_bytes = 1 << 20;
  for (const Format format : {Format::f16, Format::q8}) {
    for (const Tuning& tuning : product_tunings())
      for (const ops::Output output : {ops::Output::write, ops::Output::add}) {
        check_matmul(tuning, {format, 65, 172, 1, 1, output, true});
        check_matmul(tuning, {format, 130, 33, 32, 19, output, true});
      }
    check_matmul(sliced, {format, 70000, 40, 1, 1, ops::Output::write, true});
  }
}

TEST_F(MatmulTest, ManySlices) {
  Tuning tuning;
  tuning.slice_bytes = 1 << 20;
  for (const Format format : kFormats) {
    check_matmul(tuning, {format, 70000, 40, 1, 1});
    check_matmul(tuning, {format, 20000, 64, 8, 5});
  }
}

TEST_F(MatmulTest, WideInputs) {
  const Tuning tuning = {.row_tiles = 4};
  for (const uint32_t cols : {4100u, 8192u, 8200u, 16384u, 16385u})
    for (const uint32_t tokens : {1u, 8u}) check_matmul(tuning, {Format::q8, 70, cols, tokens, tokens});
}

TEST_F(MatmulTest, NativeFormats) {
  const Tuning tunings[] = {{},
                            {.split = 4, .row_tiles = 1, .texel_products = false},
                            {.split = 4, .row_tiles = 1, .texel_products = false, .fewest_registers = true}};
  for (const Format format : kMostNative) {
    for (const Tuning& tuning : tunings) {
      check_matmul(tuning, {format, 1, 256, 1, 1});
      check_matmul(tuning, {format, 300, 2304, 1, 1});
      check_matmul(tuning, {format, 65, 768, 32, 9});
      check_gated(tuning, {format, 384, 768, 1, 1});
    }
    check_gated({}, {format, 1152, 256, 4, 4});
    check_matmul({.row_tiles = 8}, {format, 600, 512, 1, 1, ops::Output::add, true});
    check_matmul({.slice_bytes = 1 << 20}, {format, 9000, 256, 1, 1});
  }
}

TEST_F(MatmulTest, TilesOfNativeFormats) {
  for (const Format format : kMostNative) {
    const Tuning plain = {.block_tokens = 8, .tile_tokens = 64, .half_tiles = false, .matrices = false};
    for (const uint32_t cols : {256u, 768u}) check_matmul(plain, {format, 100, cols, 64, 50});
    check_matmul({.tile_tokens = 16, .half_tiles = false, .matrices = false, .fewest_registers = true},
                 {format, 130, 512, 64, 63, ops::Output::add, true});
    const Tuning halves = {.tile_tokens = 64, .half_tiles = true, .matrices = false};
    if (open_device(halves)->plan().half_tiles) check_matmul(halves, {format, 100, 768, 64, 50});
    const Tuning matrices = {.tile_tokens = 64, .matrices = true};
    if (!ops::uses_matrices(open_device(matrices)->plan())) continue;
    for (const uint32_t cols : {256u, 768u}) check_matmul(matrices, {format, 130, cols, 64, 50});
    check_matmul(matrices, {format, 65, 512, 32, 17, ops::Output::add, true, 1e6f});
  }
}

// Formats of few bits, or whose numbers stand in a list; MatmulExpertTest.NativeFormats multiplies with all formats by
// rows.
TEST_F(MatmulTest, FormatsOfFewBits) {
  const Tuning rows = {.split = 4, .row_tiles = 1, .texel_products = false};
  const Tuning tiles = {.block_tokens = 8, .tile_tokens = 64, .half_tiles = false, .matrices = false};
  const Tuning halves = {.tile_tokens = 64, .half_tiles = true, .matrices = false};
  const Tuning matrices = {.tile_tokens = 64, .matrices = true};
  const bool has_halves = open_device(halves)->plan().half_tiles;
  const bool has_matrices = ops::uses_matrices(open_device(matrices)->plan());
  for (const Format format : {Format::iq4_nl, Format::iq4_xs, Format::iq3_xxs, Format::iq3_s, Format::q3k, Format::iq2,
                              Format::iq1, Format::q2k}) {
    check_matmul(rows, {format, 65, 2304, 1, 1});
    check_gated(rows, {format, 384, 256, 1, 1});
    check_matmul(tiles, {format, 100, 768, 64, 50, ops::Output::add, true});
    if (has_halves) check_matmul(halves, {format, 100, 768, 64, 50});
    if (has_matrices) check_matmul(matrices, {format, 130, 768, 64, 50});
  }
}

// With a format of two scales a block, inputs are not rounded to 8 bits.
TEST_F(MatmulTest, Int8OfNativeFormats) {
  const Tuning tuning = {.block_tokens = 8, .tile_tokens = 64, .int8_inputs = true};
  if (!open_device(tuning)->caps().int8_dot) GTEST_SKIP() << "the device has no integer dot products";
  for (const Format format : kNativeFormats)
    for (const uint32_t tokens : {1u, 64u}) {
      const Shape shape = {format, 100, 768, tokens, tokens};
      if (!info(format).int8_inputs) check_matmul(tuning, shape);
      for (const bool whole : {true, false})
        if (info(format).int8_inputs) check_int8(shape, 64, whole);
    }
}

TEST_F(MatmulTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Tiled weights = make_tiled(device, Format::f16, 64, 32, 1);
  const Buffer state = make_state(device, 0, 1, 1), small(device, "small", 64 * 4, Memory::device);
  const auto run = [&](uint32_t tokens) {
    run_op(device, "matmul", [&](Recorder& recorder) {
      ops::matmul(recorder, weights.matrix, state, small, small, tokens, ops::Output::write);
    });
  };
  EXPECT_THROW(run(std::max(2u, device->plan().block_tokens)), Error);  // too short
  EXPECT_THROW(run(device->plan().block_tokens + 1), Error);            // no whole number of blocks
}

}  // namespace
}  // namespace weft::test
