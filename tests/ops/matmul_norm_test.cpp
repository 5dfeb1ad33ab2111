// Products that begin or end a norm.
#include "reference/matmul.h"

#include "reference/norm.h"

#include "support/matmul_variants.h"

namespace weft::test {
namespace {

class MatmulNormTest : public GpuTest {};

// A norm that one product begins and another ends.
void check_norm(const Tuning& tuning, Format format, uint32_t width, uint32_t inner, uint32_t most_tokens) {
  const auto device = open_device(tuning);
  const Plan& plan = device->plan();
  const uint32_t tokens = fusible(plan, most_tokens);
  SCOPED_TRACE(tuning.name() + " " + name(format) + " width " + std::to_string(width) + " from " +
               std::to_string(inner) + " tokens " + std::to_string(tokens));
  Random random(width * 3 + inner);
  const Tiled first = make_tiled(device, format, width, inner, width + 1),
              second = make_tiled(device, format, 100, width, width + 2);
  const Activations x = make_activations(device, tokens, tokens, inner, random);
  const Buffer state = make_state(device, 3, 3 + tokens, 1000);
  const std::vector<float> norm_weights = random.normals(width);
  const Buffer norm_weight = upload(device, "norm weight", norm_weights);
  const uint32_t stride = stride_of(width), out_stride = stride_of(100), begun_stride = ops::begun_stride(width);
  const std::vector<float> before = random.normals(size_t{tokens} * stride);
  const Buffer residual = upload(device, "residual", before), y = poisoned(device, "y", uint64_t{tokens} * out_stride),
               begun = upload(device, "begun", std::vector<float>(size_t{tokens} * begun_stride));
  const ops::NormShape shape = {width, 1e-5f};
  ASSERT_TRUE(ops::can_fuse(plan, tokens));
  run_op(device, layer_product(plan, first.matrix, width), [&](Recorder& recorder) {
    const ops::BeginNorm begin = {norm_weight, begun};
    ops::matmul(recorder, first.matrix, state, x.buffer, residual, tokens, ops::Output::add, &begin);
  });
  run_op(device, layer_product(plan, second.matrix, 100), [&](Recorder& recorder) {
    ops::matmul(recorder, second.matrix, state, ops::BegunNorm{begun, shape, ops::norm_sums(plan, width)}, y, tokens,
                ops::Output::write);
  });
  // The first product is tested elsewhere: what it gave is the input of the norm.
  const std::vector<float> sums = download_as<float>(device, residual);
  reference::Rows written(tokens, width);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t i = 0; i < width; ++i) written.row(t)[i] = double{sums[size_t{t} * stride + i]};
  const reference::Rows read = reference::norm(written, doubles(norm_weights), double{shape.epsilon});
  std::vector<double> allowed = padded(reference::matmul_magnitude(second.values, read), tokens, out_stride);
  for (double& value : allowed) value *= dot_error(width) + 16 * kRounding;
  const reference::Rows want = reference::matmul(second.values, read);
  EXPECT_TRUE(close_to(download_as<float>(device, y), padded(want, tokens, out_stride), allowed));
}

TEST_F(MatmulNormTest, BegunAndEnded) {
  for (const Format format : kFormats)
    for (const uint32_t tokens : {1u, 4u}) {
      for (const uint32_t width : {1u, 96u, 576u}) check_norm({}, format, width, 64, tokens);
      for (const Tuning& tuning : product_tunings()) check_norm(tuning, format, 300, 64, tokens);
    }
}

TEST_F(MatmulNormTest, NativeFormats) {
  for (const Format format : kMostNative)
    for (const Tuning& tuning : {Tuning{}, Tuning{.split = 4, .row_tiles = 1, .texel_products = false}})
      check_norm(tuning, format, 256, 512, 1);
}

TEST_F(MatmulNormTest, RefusesWhatItCannotFuse) {
  const auto device = open_device({.block_tokens = 8, .tile_tokens = 16});
  const Buffer any(device, "any", 1 << 20, Memory::device);
  const Plan& plan = device->plan();
  EXPECT_TRUE(ops::can_fuse(plan, 8));
  EXPECT_FALSE(ops::can_fuse(plan, 16)) << "tiles";
  const Tiled weights = make_tiled(device, Format::f16, 128, 96, 1), odd = make_tiled(device, Format::f16, 64, 96, 1);
  EXPECT_TRUE(ops::can_gate(plan, weights.matrix, 8));
  EXPECT_FALSE(ops::can_gate(plan, weights.matrix, 16)) << "tiles";
  EXPECT_FALSE(ops::can_gate(plan, odd.matrix, 8)) << "half a tile of gates";
  const auto refuses = [&](const auto& record) { EXPECT_THROW(run_op(device, "matmul", record), Error); };
  const ops::BegunNorm begun = {any, {96, 1e-5f}, 2}, layer = {any, {96, 1e-5f, ops::NormKind::layer}, 2};
  const ops::BeginNorm begin = {any, any};
  const auto multiply = [&](const ops::Input& input, uint32_t tokens, const ops::BeginNorm* next) {
    return [&, input, tokens, next](Recorder& recorder) {
      ops::matmul(recorder, weights.matrix, any, input, any, tokens, ops::Output::write, next);
    };
  };
  refuses(multiply(begun, 16, nullptr));
  refuses(multiply(layer, 1, nullptr));
  refuses(multiply(any, 16, &begin));
  refuses(
      [&](Recorder& recorder) { ops::matmul_gated(recorder, odd.matrix, ops::Activation::silu, any, any, any, 1); });
}

}  // namespace
}  // namespace weft::test
