// Products of matrices whose rows have two formats, and of native formats whose blocks have 32 columns.
#include "reference/activate.h"
#include "reference/matmul.h"

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class MatmulFormatsTest : public GpuTest {};

struct TwoFormats {
  Format first, second;
  uint32_t first_rows, rows, cols;
};

Tiled make_two(const std::shared_ptr<Device>& device, const TwoFormats& of) {
  return join(device, make_tiled(device, of.first, of.first_rows, of.cols, of.rows + of.cols),
              make_tiled(device, of.second, of.rows - of.first_rows, of.cols, of.rows * 3 + of.cols));
}

std::string trace(const Tuning& tuning, const TwoFormats& of, uint32_t tokens) {
  return tuning.name() + " " + name(of.first) + " " + name(of.second) + " from row " + std::to_string(of.first_rows) +
         " of " + std::to_string(of.rows) + " cols " + std::to_string(of.cols) + " tokens " + std::to_string(tokens);
}

// Adds to biased sums, so that every part of the kernel that depends on the row takes part.
void check(const Tuning& tuning, const TwoFormats& of, uint32_t tokens, double error = 1) {
  SCOPED_TRACE(trace(tuning, of, tokens));
  const auto device = open_device(tuning);
  Tiled weights = make_two(device, of);
  Random random(of.rows);
  const Activations x = make_activations(device, tokens, tokens, of.cols, random);
  const uint32_t stride = stride_of(of.rows);
  const std::vector<float> biases = random.normals(of.rows), before = random.normals(size_t{tokens} * stride);
  const Buffer state = make_state(device, 3, 3 + tokens, 1000), y = upload(device, "y", before),
               bias = upload(device, "bias", biases),
               halves = poisoned(device, "halves", uint64_t{tokens} * ops::halves_stride(of.cols));
  weights.matrix.bias = bias;
  ops::Input input = x.buffer;
  input.halves = halves;
  run_once(device, "two formats", [&](Recorder& recorder) {
    ops::matmul(recorder, weights.matrix, state, input, y, tokens, ops::Output::add);
    if (tuning.slice_bytes == 0) {
      const size_t dispatches = ops::uses_matrices(device->plan()) && !ops::can_fuse(device->plan(), tokens) ? 2 : 1;
      EXPECT_EQ(recorder.dispatched().size(), dispatches);
    }
  });
  reference::Rows want = reference::matmul(weights.values, x.values);
  reference::Rows magnitude = reference::matmul_magnitude(weights.values, x.values);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t r = 0; r < of.rows; ++r) {
      const double more = double{biases[r]} + before[size_t{t} * stride + r];
      want.row(t)[r] += more;
      magnitude.row(t)[r] += std::abs(more);
    }
  std::vector<double> expected = padded(want, tokens, stride), allowed = padded(magnitude, tokens, stride);
  std::vector<float> got = download_as<float>(device, y);
  for (size_t i = 0; i < got.size(); ++i)
    if (i % stride >= of.rows) got[i] = got[i] == before[i] ? std::bit_cast<float>(kPoison) : 0;
  for (double& value : allowed) value *= error * dot_error(of.cols);
  EXPECT_TRUE(close_to(got, expected, allowed));
}

void check_gated(const Tuning& tuning, const TwoFormats& of, uint32_t most_tokens) {
  const auto device = open_device(tuning);
  const uint32_t tokens = fusible(device->plan(), most_tokens);
  SCOPED_TRACE("gates " + trace(tuning, of, tokens));
  const Tiled weights = make_two(device, of);
  Random random(of.rows);
  const Activations x = make_activations(device, tokens, tokens, of.cols, random);
  const uint32_t results = of.rows / 2, stride = stride_of(results);
  const Buffer state = make_state(device, 3, 3 + tokens, 1000), y = poisoned(device, "y", uint64_t{tokens} * stride);
  ASSERT_TRUE(ops::can_gate(device->plan(), weights.matrix, tokens));
  run_once(device, "two formats", [&](Recorder& recorder) {
    ops::matmul_gated(recorder, weights.matrix, ops::Activation::silu, state, x.buffer, y, tokens);
    EXPECT_EQ(recorder.dispatched().size(), 1u);
  });
  const reference::Rows want =
      reference::activate(reference::Activation::silu, true, reference::matmul(weights.values, x.values));
  const reference::Rows magnitude = reference::matmul_magnitude(weights.values, x.values);
  std::vector<double> allowed(size_t{tokens} * stride, 0);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t r = 0; r < results; ++r)  // |silu'| < 1.2
      allowed[size_t{t} * stride + r] =
          2.2 * magnitude.row(t)[r] * magnitude.row(t)[results + r] * (dot_error(of.cols) + 16 * kRounding);
  EXPECT_TRUE(close_to(download_as<float>(device, y), padded(want, tokens, stride), allowed));
}

constexpr TwoFormats kNative = {Format::q4k, Format::q6, 192, 300, 512}, kQ8 = {Format::q8, Format::q4, 64, 130, 172},
                     kHalves = {Format::f16, Format::q5k, 128, 192, 256},
                     kOfThree = {Format::q3k, Format::q5k, 64, 192, 512},
                     kCodeBooks = {Format::iq2, Format::iq4_xs, 128, 192, 256},
                     kOfTwo = {Format::q2k, Format::q3k, 64, 192, 256};

TEST_F(MatmulFormatsTest, FewTokens) {
  for (const Tuning& tuning : product_tunings()) check(tuning, kNative, 1);
  for (const Tuning& tuning : product_tunings(2)) {
    for (const TwoFormats& of : {kQ8, kHalves, kOfThree, kCodeBooks, kOfTwo}) check(tuning, of, 1);
    check(tuning, kNative, 4);
  }
  check({.slice_bytes = 64 << 10}, {Format::q4k, Format::q6, 512, 1000, 256}, 1);
}

TEST_F(MatmulFormatsTest, Gates) {
  for (const Tuning& tuning : product_tunings(3)) check_gated(tuning, {Format::q4k, Format::q6, 192, 384, 512}, 1);
  check_gated({}, {Format::f16, Format::q8, 64, 128, 96}, 4);
}

TEST_F(MatmulFormatsTest, Tiles) {
  const Tuning tuning = {.block_tokens = 8, .tile_tokens = 64, .half_tiles = false, .matrices = false};
  for (const TwoFormats& of : {kNative, kQ8, kHalves, kOfThree, kCodeBooks}) check(tuning, of, 40);
  check({.tile_tokens = 16, .half_tiles = false, .matrices = false, .slice_bytes = 64 << 10},
        {Format::q4k, Format::q6, 512, 1000, 256}, 24);
}

TEST_F(MatmulFormatsTest, HalfTiles) {
  const Tuning tuning = {.tile_tokens = 64, .half_tiles = true, .matrices = false};
  if (!open_device(tuning)->plan().half_tiles) GTEST_SKIP() << "the device does not compute with halves";
  for (const TwoFormats& of : {kNative, kHalves, kOfThree, kOfTwo})
    check(tuning, of, 40, 3 * 0x1p-11 / dot_error(of.cols));
}

TEST_F(MatmulFormatsTest, Matrices) {
  const Tuning tuning = {.tile_tokens = 64, .matrices = true};
  if (!ops::uses_matrices(open_device(tuning)->plan())) GTEST_SKIP() << "the device has no cooperative matrices";
  for (const TwoFormats& of : {kNative, kQ8, kHalves, kOfThree, kCodeBooks}) check(tuning, of, 40);
}

// Rows that are no whole super-blocks, in one format and beside another.
TEST_F(MatmulFormatsTest, BlocksOf32) {
  for (const TwoFormats& of :
       {TwoFormats{Format::q5_0, Format::q8, 64, 130, 96}, TwoFormats{Format::q4_0, Format::q5_1, 128, 200, 160},
        TwoFormats{Format::q5_1, Format::q5_0, 64, 66, 32}, TwoFormats{Format::mxfp4, Format::q8, 64, 130, 96}}) {
    for (const Tuning& tuning : product_tunings(2)) check(tuning, of, 1);
    check({.tile_tokens = 64, .half_tiles = false, .matrices = false}, of, 40);
  }
  const Tuning halves = {.tile_tokens = 64, .half_tiles = true, .matrices = false};
  if (open_device(halves)->plan().half_tiles)
    for (const Format first : {Format::q4_0, Format::mxfp4})
      check(halves, {first, Format::q5_1, 128, 200, 160}, 40, 3 * 0x1p-11 / dot_error(160));
}

// Inputs are rounded to 8 bits, in steps of 1/254 of a block's peak, only if both formats can be multiplied with such.
TEST_F(MatmulFormatsTest, Int8) {
  const Tuning tuning = {.block_tokens = 8, .tile_tokens = 64, .int8_inputs = true};
  const auto device = open_device(tuning);
  if (!device->caps().int8_dot) GTEST_SKIP() << "the device has no integer dot products";
  for (const uint32_t tokens : {1u, 40u})
    check(tuning, {Format::q4k, Format::q8, 128, 200, 512}, tokens, 0.02 / dot_error(512));
  check(tuning, kNative, 1);
  check(tuning, kNative, 40, device->plan().half_tiles ? 3 * 0x1p-11 / dot_error(kNative.cols) : 1);
}

}  // namespace
}  // namespace weft::test
