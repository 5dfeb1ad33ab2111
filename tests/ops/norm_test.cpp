#include "reference/norm.h"

#include <bit>
#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class NormTest : public GpuTest {};

// Squares add up to cols terms; the root halves their relative error, and a few multiplications follow.
double tolerance(uint32_t cols) { return dot_error(cols) / 2 + 6 * kRounding; }

void check_norm(const Tuning& tuning, uint32_t cols, uint32_t active, uint32_t tokens, bool last_only, float scale,
                float epsilon, ops::NormKind kind = ops::NormKind::rms, ops::Output output = ops::Output::write,
                float of_sum = 1) {
  SCOPED_TRACE(tuning.name() + " cols " + std::to_string(cols) + " active " + std::to_string(active) + " of " +
               std::to_string(tokens) + (last_only ? " last only" : "") + " scale " + std::to_string(scale) +
               (kind == ops::NormKind::layer ? " layer" : "") + (output == ops::Output::add ? " add" : ""));
  const auto device = open_device(tuning);
  Random random(cols + active);
  const Activations x = make_activations(device, tokens, active, cols, random, scale);
  const bool layer = kind == ops::NormKind::layer;
  const std::vector<float> weight = random.normals(layer ? 2 * cols : cols);
  const Buffer weights = upload(device, "weight", weight), state = make_state(device, 5, 5 + active, 100);
  const uint32_t out_rows = last_only ? 1 : tokens;
  Buffer y = poisoned(device, "y", uint64_t{out_rows} * x.stride);
  std::vector<float> before(size_t{out_rows} * x.stride, 0.0f);
  if (output == ops::Output::add) {
    before = random.normals(before.size());
    y = upload(device, "y", before);
  }
  const bool texel = device->plan().texel_products && cols % 4 == 0;
  run_op(device, texel ? "norm texel" : reduction("norm", device->plan()), [&](Recorder& recorder) {
    ops::norm(recorder, {cols, epsilon, kind}, state, x.buffer, weights, y, tokens, last_only, output, nullptr, of_sum);
  });
  const std::vector<double> w = doubles(weight);
  const std::span<const double> gains = std::span(w).first(cols), biases = std::span(w).subspan(layer ? cols : 0);
  reference::Rows want =
      layer ? reference::layer_norm(x.values, gains, biases, epsilon) : reference::norm(x.values, gains, epsilon);
  if (last_only) {
    reference::Rows last(1, cols);
    std::ranges::copy(want.row(active - 1), last.row(0).begin());
    want = last;
  }
  std::vector<double> expected = padded(want, out_rows, x.stride), allowed(expected.size(), 0);
  std::vector<float> got = download_as<float>(device, y);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {  // what was there before stays there
      if (output == ops::Output::add && got[i] == before[i]) got[i] = std::bit_cast<float>(kPoison);
      continue;
    }
    // A layer norm's mean is rounded too: what it loses is relative to the values, of about 1.
    const double size = layer ? std::abs(w[i % x.stride]) * 6 + std::abs(biases[i % x.stride]) : std::abs(expected[i]);
    expected[i] = (expected[i] + before[i]) * of_sum;
    allowed[i] = (tolerance(cols) * size + (output == ops::Output::add ? kRounding * 8 : 0)) * of_sum;
  }
  EXPECT_TRUE(close_to(got, expected, allowed));
}

TEST_F(NormTest, LayerNorm) {
  for (const Tuning& tuning : reduction_tunings())
    for (const uint32_t cols : {2u, 31u, 33u, 172u, 257u, 768u})
      check_norm(tuning, cols, 1, 1, false, 1, 1e-5f, ops::NormKind::layer);
  for (const bool last_only : {false, true}) check_norm({}, 172, 7, 16, last_only, 1, 1e-5f, ops::NormKind::layer);
}

TEST_F(NormTest, AddedToWhatIsThere) {
  for (const ops::NormKind kind : {ops::NormKind::rms, ops::NormKind::layer})
    for (const uint32_t cols : {31u, 32u, 172u}) {
      check_norm({}, cols, 1, 1, false, 1, 1e-5f, kind, ops::Output::add);
      check_norm({}, cols, 5, 16, false, 1, 1e-5f, kind, ops::Output::add);
      check_norm({}, cols, 5, 16, false, 1, 1e-5f, kind, ops::Output::add, 0.3f);
    }
}

// Values that the norm leaves for the product that ends the next norm: computed from the y that it has written.
TEST_F(NormTest, BeginsTheNext) {
  for (const Tuning& tuning : reduction_tunings())
    for (const uint32_t cols : {1u, 31u, 32u, 172u, 640u}) {
      SCOPED_TRACE(tuning.name() + " cols " + std::to_string(cols));
      const auto device = open_device(tuning);
      Random random(cols);
      constexpr uint32_t kTokens = 4, kActive = 3;
      const Activations x = make_activations(device, kTokens, kActive, cols, random);
      const std::vector<float> next = random.normals(cols);
      const Buffer weights = upload(device, "weight", random.normals(cols)), next_weight = upload(device, "next", next),
                   state = make_state(device, 5, 5 + kActive, 100),
                   y = upload(device, "y", random.normals(size_t{kTokens} * x.stride));
      const uint32_t stride = ops::begun_stride(cols);
      const Buffer begun = poisoned(device, "begun", uint64_t{kTokens} * stride);
      const bool texel = device->plan().texel_products && cols % 4 == 0;
      run_op(device, texel ? "norm texel" : reduction("norm", device->plan()), [&](Recorder& recorder) {
        const ops::BeginNorm begin = {next_weight, begun};
        ops::norm(recorder, {cols, 1e-5f}, state, x.buffer, weights, y, kTokens, false, ops::Output::add, &begin);
      });
      const std::vector<float> written = download_as<float>(device, y), got = download_as<float>(device, begun);
      for (uint32_t t = 0; t < kActive; ++t) {
        double sum = 0;
        for (uint32_t i = 0; i < cols; ++i) {
          const float value = written[size_t{t} * x.stride + i];
          EXPECT_EQ(got[size_t{t} * stride + i], value * next[i]);
          sum += double{value} * value;
        }
        EXPECT_NEAR(got[size_t{t} * stride + NORM_SUMS_AT(cols)], sum, sum * dot_error(cols));
      }
      EXPECT_EQ(std::bit_cast<uint32_t>(got[size_t{kActive} * stride]), kPoison) << "a token after the end";
    }
}

TEST_F(NormTest, AwkwardWidths) {
  for (const Tuning& tuning : reduction_tunings())
    for (const uint32_t cols : {1u, 2u, 31u, 33u, 172u, 255u, 257u, 576u, 4096u})
      check_norm(tuning, cols, 1, 1, false, 1, 1e-5f);
}

TEST_F(NormTest, PartialChunks) {
  for (const bool plain : {false, true})
    for (const uint32_t active : {1u, 2u, 7u, 16u})
      for (const bool last_only : {false, true}) {
        Tuning tuning;
        tuning.plain = plain;
        check_norm(tuning, 172, active, 16, last_only, 1, 1e-5f);
      }
}

TEST_F(NormTest, EpsilonAndMagnitudes) {
  check_norm({}, 64, 1, 1, false, 0, 1e-5f);  // all zero: epsilon keeps it finite
  check_norm({}, 64, 1, 1, false, 1e-4f, 1e-5f);
  check_norm({}, 64, 1, 1, false, 1e4f, 1e-6f);
}

}  // namespace
}  // namespace weft::test
