// Activations into a vocabulary table's basis and back.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class RotateTest : public GpuTest {};

double norm(std::span<const double> x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

// What lies after the columns is left alone. Each of six rounds adds and multiplies 6 times, the scale comes once, and
// no element is larger than the norm.
void check_rotate(const Tuning& tuning, uint32_t width, uint32_t tokens) {
  SCOPED_TRACE(tuning.name() + " width " + std::to_string(width) + " tokens " + std::to_string(tokens));
  const auto device = open_device(tuning);
  Random random(width + tokens);
  std::vector<uint32_t> order(width);
  for (uint32_t i = 0; i < width; ++i) order[i] = (i + 7) % width;
  const std::vector<float> mean = random.normals(width, 100);
  std::vector<float> scales(width);
  for (float& scale : scales) scale = std::exp(random.uniform(-1, 1));
  const auto basis = std::make_shared<const Basis>(width, order, mean, scales);
  Tiled table;
  table.matrix = {Format::q8, 1, width, {}, Layout::planes};
  table.matrix.basis = basis;
  table.basis_words = std::make_unique<Buffer>(upload(device, "basis", basis->words()));
  table.matrix.basis_words = *table.basis_words;

  const uint32_t stride = stride_of(width), cols = basis->cols();
  const Activations x = make_activations(device, tokens, tokens, width, random);
  const Buffer y = poisoned(device, "y", uint64_t{tokens} * stride), back = poisoned(device, "back", y.bytes() / 4);
  run_op(device, "rotate", [&](Recorder& r) { ops::rotate(r, table.matrix, x.buffer, y, tokens); });
  const std::vector<float> turned = download_as<float>(device, y);
  std::vector<double> want(size_t{tokens} * stride, kUntouched), allowed(want.size()),
      original(want.size(), kUntouched);
  const reference::TableBasis read(basis->words());
  for (uint32_t t = 0; t < tokens; ++t) {
    const std::vector<double> state = read.state(x.values.row(t)), row = read.row_back(state);
    std::ranges::copy(state, want.begin() + size_t{t} * stride);
    std::ranges::copy(row, original.begin() + size_t{t} * stride);
    std::fill_n(allowed.begin() + size_t{t} * stride, stride, 37 * kRounding * norm(state));
    std::vector<float> plain(x.values.row(t).begin(), x.values.row(t).end()), on_cpu(cols);
    basis->rotate_state(plain, on_cpu);
    for (uint32_t i = 0; i < cols; ++i)
      ASSERT_NEAR(on_cpu[i], turned[size_t{t} * stride + i], 2 * allowed[size_t{t} * stride]) << t << ", " << i;
  }
  EXPECT_TRUE(close_to(turned, want, allowed));
  for (double& one : allowed) one *= 2 * std::exp(1.0);  // the largest scale
  run_op(device, "rotate", [&](Recorder& r) { ops::rotate_back(r, table.matrix, y, back, tokens); });
  EXPECT_TRUE(close_to(download_as<float>(device, back), original, allowed)) << "back";
  const std::vector<float> after = download_as<float>(device, y);  // overwritten, but not after the columns
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t i = cols; i < stride; ++i) EXPECT_TRUE(is_poison(after[size_t{t} * stride + i])) << t << ", " << i;
}

TEST_F(RotateTest, AwkwardWidths) {
  for (const Tuning& tuning : {Tuning{}, Tuning{.plain = true}})
    for (const uint32_t width : {1u, 31u, 32u, 33u, 64u, 96u, 172u, 576u, 1056u, 2112u, 4128u})
      for (const uint32_t tokens : {1u, 5u}) check_rotate(tuning, width, tokens);
}

TEST_F(RotateTest, RefusesAMatrixWithoutABasis) {
  const auto device = open_device();
  const Tiled table = make_tiled(device, Format::q8, 3, 64, 1);
  const Buffer x = poisoned(device, "x", 64), y = poisoned(device, "y", 64);
  EXPECT_ANY_THROW(run_op(device, "rotate", [&](Recorder& r) { ops::rotate(r, table.matrix, x, y, 1); }));
}

}  // namespace
}  // namespace weft::test
