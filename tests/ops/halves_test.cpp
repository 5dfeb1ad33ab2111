#include "support/op_inputs.h"

#include "base/half.h"
#include "ops/support.h"

namespace weft::test {
namespace {

class HalvesTest : public GpuTest {};

// Rows as pairs of halves: the pairs are x to 21 bits, or to a share of the row's peak; sums are those of blocks.
void check_halves(const Tuning& tuning, uint32_t cols, uint32_t tokens, uint32_t active, float scale) {
  SCOPED_TRACE(tuning.name() + " cols " + std::to_string(cols) + " active " + std::to_string(active) + " of " +
               std::to_string(tokens) + " times " + std::to_string(scale));
  const auto device = open_device(tuning);
  Random random(cols + tokens);
  const Activations x = make_activations(device, tokens, active, cols, random, scale);
  const Buffer state = make_state(device, 3, 3 + active, 1000);
  const uint32_t stride = ops::halves_stride(cols), blocks = ops::ceil_div(cols, BLOCK);
  const Buffer halves = poisoned(device, "halves", uint64_t{tokens} * stride);
  run_op(device, reduction("halves", device->plan()),
         [&](Recorder& recorder) { ops::halves(recorder, cols, state, x.buffer, halves, tokens); });
  const std::vector<float> got = download_as<float>(device, halves);
  const auto* const words = reinterpret_cast<const uint16_t*>(got.data());
  for (uint32_t t = 0; t < tokens; ++t) {
    const float* const notes = &got[size_t{t} * stride + blocks * BLOCK];
    if (t >= active) {
      for (uint32_t i = 0; i < stride; ++i) ASSERT_TRUE(is_poison(got[size_t{t} * stride + i])) << t << " " << i;
      continue;
    }
    double peak = 0;
    for (uint32_t c = 0; c < cols; ++c) peak = std::max(peak, std::abs(x.values.row(t)[c]));
    const double unit = double{notes[blocks]} / HALVES_PEAK;
    EXPECT_GT(peak / unit, HALVES_PEAK * 0.999);
    EXPECT_LT(peak / unit, HALVES_PEAK * 2);
    for (uint32_t block = 0; block < blocks; ++block) {
      double sum = 0, magnitude = 0;
      for (uint32_t i = 0; i < BLOCK; ++i) {
        const uint32_t col = block * BLOCK + i;
        const double want = col < cols ? x.values.row(t)[col] : 0;
        const size_t high = (size_t{t} * stride + block * BLOCK) * 2 + i;
        const double pair = unit * (double{half_to_float(words[high])} + half_to_float(words[high + BLOCK]));
        ASSERT_NEAR(pair, want, std::abs(want) * 0x1p-21 + peak * 0x1p-27) << "token " << t << " column " << col;
        sum += want;
        magnitude += std::abs(want);
      }
      ASSERT_NEAR(notes[block] * unit, sum, magnitude * 0x1p-20) << "token " << t << " block " << block;
    }
  }
}

TEST_F(HalvesTest, ArePairsOfARow) {
  if (!open_device()->caps().fp16) GTEST_SKIP() << "the device does not compute with halves";
  for (const Tuning& tuning : {Tuning{}, Tuning{.reduce_threads = 64}, Tuning{.plain = true}})
    for (const uint32_t cols : {1u, 8u, 31u, 32u, 33u, 96u, 172u, 576u, 2500u})
      for (const uint32_t active : {1u, 3u}) check_halves(tuning, cols, 3, active, 1);
  for (const float scale : {1e-30f, 1e-6f, 1e6f, 1e36f}) check_halves({}, 96, 2, 2, scale);
}

TEST_F(HalvesTest, ZerosStayZeros) {
  const auto device = open_device();
  if (!device->caps().fp16) GTEST_SKIP() << "the device does not compute with halves";
  constexpr uint32_t kCols = 40;
  const Activations x = make_activations(device, 1, reference::Rows(1, kCols));
  const Buffer state = make_state(device, 0, 1, 100), halves = poisoned(device, "halves", ops::halves_stride(kCols));
  run_op(device, reduction("halves", device->plan()),
         [&](Recorder& recorder) { ops::halves(recorder, kCols, state, x.buffer, halves, 1); });
  const std::vector<float> got = download_as<float>(device, halves);
  for (uint32_t i = 0; i < 2 * BLOCK + 2; ++i) EXPECT_EQ(got[i], 0) << i;
}

}  // namespace
}  // namespace weft::test
