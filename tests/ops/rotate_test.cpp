// Activations into a vocabulary table's basis and back.
#include "reference/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class RotateTest : public GpuTest {};

double norm(std::span<const double> x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); }

// A table without rows, whose basis reorders and scales.
Tiled make_table(const std::shared_ptr<Device>& device, uint32_t width, Random& random) {
  std::vector<uint32_t> order(width);
  for (uint32_t i = 0; i < width; ++i) order[i] = (i + 7) % width;
  const std::vector<float> mean = random.normals(width, 100);
  std::vector<float> scales(width);
  for (float& scale : scales) scale = std::exp(random.uniform(-1, 1));
  Tiled table;
  table.matrix = {Format::q8, 1, width, {}, Layout::planes};
  table.matrix.basis = std::make_shared<const Basis>(width, order, mean, scales);
  table.basis_words = std::make_unique<Buffer>(upload(device, "basis", table.matrix.basis->words()));
  table.matrix.basis_words = *table.basis_words;
  return table;
}

// Elements after the columns stay untouched. Error bound: each of six rounds adds and multiplies 6 times, the scale
// comes once, and no element is larger than the norm.
void check_rotate(const Tuning& tuning, uint32_t width, uint32_t tokens) {
  SCOPED_TRACE(tuning.name() + " width " + std::to_string(width) + " tokens " + std::to_string(tokens));
  const auto device = open_device(tuning);
  Random random(width + tokens);
  const Tiled table = make_table(device, width, random);
  const auto& basis = table.matrix.basis;

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
  for (const uint32_t width : {1u, 32u, 33u, 96u, 172u, 576u, 1056u, 2112u, 4128u})
    for (const uint32_t tokens : {1u, 5u}) check_rotate({}, width, tokens);
  for (const uint32_t width : {33u, 576u, 2112u}) check_rotate({.plain = true}, width, 5);
}

// Rotates the norms of all of a pass's tokens, or of the last one in row 0. The error is that of the norm plus that of
// the rotation.
void check_normed(const Tuning& tuning, uint32_t width, uint32_t tokens, bool last_only) {
  SCOPED_TRACE(tuning.name() + " width " + std::to_string(width) + (last_only ? " last only" : ""));
  const auto device = open_device(tuning);
  Random random(width + tokens);
  const Tiled table = make_table(device, width, random);
  const uint32_t stride = stride_of(width), out_rows = last_only ? 1 : tokens;
  const Activations x = make_activations(device, tokens, tokens, width, random, 3);
  const std::vector<float> weights = random.normals(width);
  const Buffer weight = upload(device, "weight", weights), state = make_state(device, 5, 5 + tokens, 100);
  const Buffer normed = poisoned(device, "normed", uint64_t{tokens} * stride),
               y = poisoned(device, "y", normed.bytes() / 4);
  constexpr float kEpsilon = 1e-2f;
  run_op(device, "rotate", [&](Recorder& r) {
    ops::rotate_normed(r, table.matrix, {width, kEpsilon}, state, x.buffer, weight, normed, y, tokens, last_only);
  });
  const reference::Rows norms = reference::norm(x.values, doubles(weights), kEpsilon);
  const reference::TableBasis read(table.matrix.basis->words());
  const double error = dot_error(width) / 2 + 6 * kRounding;
  std::vector<double> want_normed(size_t{tokens} * stride, kUntouched), want(want_normed), allowed_normed(want.size()),
      allowed(want.size());
  for (uint32_t t = 0; t < out_rows; ++t) {
    const std::span<const double> row = norms.row(last_only ? tokens - 1 : t);
    const std::vector<double> turned = read.state(row);
    std::ranges::copy(row, want_normed.begin() + size_t{t} * stride);
    std::ranges::copy(turned, want.begin() + size_t{t} * stride);
    for (uint32_t i = 0; i < stride; ++i) {
      allowed_normed[size_t{t} * stride + i] = i < width ? error * std::abs(row[i]) : 0;
      allowed[size_t{t} * stride + i] = (error + 37 * kRounding) * norm(turned);
    }
  }
  EXPECT_TRUE(close_to(download_as<float>(device, normed), want_normed, allowed_normed)) << "normed";
  EXPECT_TRUE(close_to(download_as<float>(device, y), want, allowed));
}

// Rows that come back are those without a norm, to the last bit, and it may be begun later; three zeros follow the sum.
void check_begun(const Tuning& tuning, uint32_t width, uint32_t tokens) {
  SCOPED_TRACE(tuning.name() + " width " + std::to_string(width));
  const auto device = open_device(tuning);
  Random random(width + tokens);
  const Tiled table = make_table(device, width, random);
  const uint32_t stride = stride_of(width), begun_stride = ops::begun_stride(width);
  const std::vector<float> weights = random.normals(width), turned = random.normals(size_t{tokens} * stride);
  const Buffer weight = upload(device, "weight", weights), begun = poisoned(device, "begun", tokens * begun_stride);
  const Buffer plain = poisoned(device, "plain", uint64_t{tokens} * stride),
               x = poisoned(device, "x", plain.bytes() / 4);
  const Buffer y = upload(device, "y", turned), again = upload(device, "y", turned);
  const Buffer later = poisoned(device, "begun later", begun.bytes() / 4);
  const ops::BeginNorm begin = {weight, begun};
  run_op(device, "rotate", [&](Recorder& r) {
    ops::rotate_back(r, table.matrix, again, plain, tokens);
    ops::rotate_back(r, table.matrix, y, x, tokens, &begin);
    ops::begin_norm(r, table.matrix, x, {weight, later}, tokens);
  });
  EXPECT_EQ(download_as<uint32_t>(device, later), download_as<uint32_t>(device, begun));
  const std::vector<float> rows = download_as<float>(device, x);
  EXPECT_EQ(download_as<uint32_t>(device, x), download_as<uint32_t>(device, plain));
  std::vector<double> want(size_t{tokens} * begun_stride, kUntouched), allowed(want.size());
  for (uint32_t t = 0; t < tokens; ++t) {
    double squares = 0;
    for (uint32_t i = 0; i < width; ++i) {
      const double value = rows[size_t{t} * stride + i];
      squares += value * value;
      want[size_t{t} * begun_stride + i] = value * weights[i];
      allowed[size_t{t} * begun_stride + i] = kRounding * std::abs(value * weights[i]);
    }
    const size_t sums = size_t{t} * begun_stride + NORM_SUMS_AT(width);
    for (uint32_t i = 0; i < 4; ++i) want[sums + i] = i == 0 ? squares : 0;
    allowed[sums] = dot_error(width) * squares;
  }
  EXPECT_TRUE(close_to(download_as<float>(device, begun), want, allowed));
}

TEST_F(RotateTest, NormsStatesFirst) {
  for (const Tuning& tuning : {Tuning{}, Tuning{.plain = true}, Tuning{.texel_products = false}})
    for (const uint32_t width : {1u, 33u, 96u, 576u, 2112u})
      for (const bool last_only : {false, true}) check_normed(tuning, width, 3, last_only);
}

TEST_F(RotateTest, BeginsANormOfRowsThatComeBack) {
  for (const Tuning& tuning : {Tuning{}, Tuning{.plain = true}, Tuning{.texel_products = false}})
    for (const uint32_t width : {1u, 33u, 96u, 576u, 2112u}) check_begun(tuning, width, 3);
}

// States stay as they are, filled up with zeros to whole blocks, and so do their norms.
TEST_F(RotateTest, KeepsStatesForATableWithoutABasis) {
  for (const Tuning& tuning : {Tuning{}, Tuning{.plain = true}, Tuning{.texel_products = false}})
    for (const uint32_t width : {1u, 33u, 576u, 2112u}) {
      SCOPED_TRACE(tuning.name() + " width " + std::to_string(width));
      const auto device = open_device(tuning);
      const uint32_t tokens = 3, stride = stride_of(width);
      Random random(width);
      const Tiled table = make_tiled(device, Format::q8, 3, width, 1);
      const Activations x = make_activations(device, tokens, tokens, width, random);
      const Buffer weight = upload(device, "weight", random.normals(width)), state = make_state(device, 5, 8, 100);
      const Buffer y = poisoned(device, "y", uint64_t{tokens} * stride), z = poisoned(device, "z", y.bytes() / 4),
                   normed = poisoned(device, "normed", y.bytes() / 4);
      run_op(device, "rotate", [&](Recorder& r) {
        ops::rotate(r, table.matrix, x.buffer, y, tokens);
        ops::rotate_normed(r, table.matrix, {width, 1e-5f}, state, x.buffer, weight, normed, z, tokens, true);
      });
      const auto before = download_as<float>(device, x.buffer), after = download_as<float>(device, y),
                 norms = download_as<float>(device, normed), same = download_as<float>(device, z);
      for (uint32_t i = 0; i < stride; ++i) {
        const bool filling = i >= width && i < table.matrix.blocks() * BLOCK;
        for (uint32_t t = 0; t < tokens; ++t) {
          const size_t at = size_t{t} * stride + i;
          EXPECT_TRUE(i < width ? after[at] == before[at] : filling ? after[at] == 0 : is_poison(after[at])) << at;
        }
        EXPECT_TRUE(i < width ? same[i] == norms[i] : filling ? same[i] == 0 : is_poison(same[i])) << i;
        EXPECT_TRUE(is_poison(same[stride + i])) << i;
      }
      EXPECT_ANY_THROW(
          run_op(device, "rotate", [&](Recorder& r) { ops::rotate_back(r, table.matrix, y, x.buffer, 1); }));
    }
}

}  // namespace
}  // namespace weft::test
