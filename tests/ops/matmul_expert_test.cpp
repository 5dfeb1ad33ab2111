#include "reference/matmul.h"

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class MatmulExpertTest : public GpuTest {};

struct Shape {
  Format format;
  uint32_t rows, cols, tokens, active;
  ops::OfChosen of = ops::OfChosen::each;
  bool biased = false;
};

// Every expert but the chosen ones holds NaN, which would show that it was read.
void check(const Tuning& tuning, const Shape& shape) {
  SCOPED_TRACE(tuning.name() + " " + name(shape.format) + " rows " + std::to_string(shape.rows) + " cols " +
               std::to_string(shape.cols) + " active " + std::to_string(shape.active) + " of " +
               std::to_string(shape.tokens) + (shape.of == ops::OfChosen::sum ? " sum" : "") +
               (shape.biased ? " biased" : ""));
  constexpr uint32_t kUsed[] = {6, 0, 3};
  constexpr ops::Experts kExperts = {7, std::size(kUsed)};
  const bool sums = shape.of == ops::OfChosen::sum;
  const uint32_t inputs = sums ? kExperts.used : 1, outputs = sums ? 1 : kExperts.used;  // of a token
  const auto device = open_device(tuning);
  Random random(shape.rows + shape.cols);
  const Activations x = make_activations(device, shape.tokens * inputs, shape.active * inputs, shape.cols, random);
  const Buffer state = make_state(device, 3, 3 + shape.active, 1000);
  const uint32_t out_stride = stride_of(shape.rows);

  std::vector<reference::Rows> values(kExperts.count);
  Matrix one;
  std::vector<std::byte> bytes;
  for (const uint32_t expert : kUsed) {
    const Tiled tiled = make_tiled(device, shape.format, shape.rows, shape.cols, expert + 1);
    one = tiled.matrix;
    values[expert] = tiled.values;
    const std::vector<std::byte> own = download_as<std::byte>(device, *tiled.buffer);
    bytes.resize(kExperts.count * one.bytes(), std::byte{0x7e});  // as halves and as scales: NaN
    std::copy_n(own.begin(), one.bytes(), bytes.begin() + static_cast<ptrdiff_t>(expert * one.bytes()));
  }
  const Buffer weights = upload(device, "experts", bytes);
  one.view = weights;
  std::vector<float> bias(size_t{kExperts.count} * shape.rows);
  if (shape.biased) bias = random.normals(bias.size());
  const Buffer biases = upload(device, "biases", bias);
  if (shape.biased) one.bias = biases;

  std::vector<abi::RoutedExpert> chosen(shape.tokens * kExperts.used, {1, 0});  // a poisoned one
  reference::Rows want(shape.active * outputs, shape.rows), magnitude(shape.active * outputs, shape.rows);
  std::vector<float> before(size_t{shape.tokens} * outputs * out_stride);
  if (sums) before = random.normals(before.size());
  for (uint32_t t = 0; t < shape.active; ++t) {
    if (sums)
      for (uint32_t r = 0; r < shape.rows; ++r) {
        want.row(t)[r] = before[size_t{t} * out_stride + r];
        magnitude.row(t)[r] = std::abs(want.row(t)[r]) * dot_error(shape.cols);
      }
    for (uint32_t k = 0; k < kExperts.used; ++k) {
      abi::RoutedExpert& routed = chosen[t * kExperts.used + k];
      routed = {kUsed[(t + k) % std::size(kUsed)], 0.25f + 0.125f * static_cast<float>((t + k) % 3)};
      reference::Rows input(1, shape.cols);
      std::ranges::copy(x.values.row(sums ? t * inputs + k : t), input.row(0).begin());
      const reference::Rows y = reference::matmul(values[routed.expert], input);
      const reference::Rows size = reference::matmul_magnitude(values[routed.expert], input);
      const uint32_t row = sums ? t : t * outputs + k;
      const double weight = sums ? routed.weight : 1;
      for (uint32_t r = 0; r < shape.rows; ++r) {
        const double own = bias[routed.expert * shape.rows + r];
        want.row(row)[r] += weight * (y.row(0)[r] + own);
        magnitude.row(row)[r] += weight * (size.row(0)[r] + std::abs(own)) * dot_error(shape.cols);
      }
    }
  }
  const Buffer choices = upload(device, "chosen", chosen);
  const Buffer y = sums ? upload(device, "y", before) : poisoned(device, "y", before.size());
  run_op(device, split_product("matmul_expert", device->plan()), [&](Recorder& recorder) {
    ops::matmul_expert(recorder, one, kExperts, state, choices, x.buffer, y, shape.tokens, shape.of);
  });
  std::vector<float> got = download_as<float>(device, y);
  const std::vector<double> expected = padded(want, shape.tokens * outputs, out_stride);
  for (size_t i = 0; i < got.size(); ++i)  // what was there before stays there
    if (sums && std::isnan(expected[i]) && got[i] == before[i]) got[i] = std::bit_cast<float>(kPoison);
  EXPECT_TRUE(close_to(got, expected, padded(magnitude, shape.tokens * outputs, out_stride)));
}

TEST_F(MatmulExpertTest, OneTokenAndChunks) {
  for (const Tuning& tuning : product_tunings())
    for (const Format format : {Format::f16, Format::q8})
      for (const ops::OfChosen of : {ops::OfChosen::each, ops::OfChosen::sum}) {
        check(tuning, {format, 3, 33, 1, 1, of, true});
        check(tuning, {format, 300, 48, 1, 1, of});
        check(tuning, {format, 72, 48, 16, 11, of, true});
      }
}

TEST_F(MatmulExpertTest, NativeFormats) {
  for (const Tuning& tuning : {Tuning(), Tuning{.split = 4, .row_tiles = 1, .texel_products = false}})
    for (const Format format : kNativeFormats) {
      check(tuning, {format, 300, 256, 1, 1, ops::OfChosen::each, true});
      check(tuning, {format, 72, 512, 16, 11, ops::OfChosen::sum});
    }
}

// Slices that begin and end within an expert.
TEST_F(MatmulExpertTest, SlicesOfABindingsReach) {
  for (const uint64_t slice : {16384u, 32768u, 49152u}) {
    Tuning tuning;
    tuning.slice_bytes = slice;
    for (const Format format : {Format::f16, Format::q8})
      for (const ops::OfChosen of : {ops::OfChosen::each, ops::OfChosen::sum})
        check(tuning, {format, 300, 48, 8, 8, of, true});
  }
}

TEST_F(MatmulExpertTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Tiled tiled = make_tiled(device, Format::f16, 64, 32, 1);
  const Buffer any(device, "any", 1 << 16, Memory::device);
  const auto run = [&](const ops::Experts& experts) {
    run_op(device, split_product("matmul_expert", device->plan()), [&](Recorder& r) {
      ops::matmul_expert(r, tiled.matrix, experts, any, any, any, any, 1, ops::OfChosen::each);
    });
  };
  EXPECT_THROW(run({1, 2}), Error);  // more choices than experts
  EXPECT_THROW(run({2, 1}), Error);  // the weights of one expert only
}

}  // namespace
}  // namespace weft::test
