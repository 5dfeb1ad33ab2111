// Halves, bfloat16 and the decoding of tensors.
#include <cmath>
#include <limits>

#include "format_support.h"

namespace weft {
namespace {

// The definition, IEEE 754-2019 section 3.4, in double precision.
double half_by_definition(uint16_t half) {
  const int exponent = (half >> 10) & 31, mantissa = half & 1023;
  const double sign = half & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa ? std::nan("") : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

TEST(Half, EveryHalfBecomesTheFloatItMeans) {
  for (uint32_t half = 0; half <= 0xffff; ++half) {
    const float value = half_to_float(static_cast<uint16_t>(half));
    const double expected = half_by_definition(static_cast<uint16_t>(half));
    ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << std::hex << half;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << std::hex << half;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << std::hex << half;
    }
  }
}

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t half = 0; half <= 0xffff; ++half) {
    const bool nan = (half & 0x7c00) == 0x7c00 && (half & 0x03ff) != 0;
    const uint32_t expected = nan ? half | 0x0200 : half;  // NaNs become quiet
    ASSERT_EQ(float_to_half(half_to_float(static_cast<uint16_t>(half))), expected) << std::hex << half;
  }
}

TEST(Half, RoundsToNearestAndTiesToEvenBetweenAllNeighbours) {
  for (uint32_t low = 0; low < 0x7bff; ++low) {
    const uint32_t high = low + 1;
    const double middle =
        (half_by_definition(static_cast<uint16_t>(low)) + half_by_definition(static_cast<uint16_t>(high))) / 2;
    const auto tie = static_cast<float>(middle);  // exact: one bit more than a half
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float factor = sign ? -1.0f : 1.0f;
      ASSERT_EQ(float_to_half(factor * tie), sign | (low % 2 == 0 ? low : high)) << std::hex << low;
      ASSERT_EQ(float_to_half(factor * std::nextafter(tie, 0.0f)), sign | low) << std::hex << low;
      ASSERT_EQ(float_to_half(factor * std::nextafter(tie, INFINITY)), sign | high) << std::hex << low;
    }
  }
}

TEST(Half, TheEndsOfTheRange) {
  EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(float_to_half(-INFINITY), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
  EXPECT_EQ(float_to_half(0x1p-25f), 0x0000);
  EXPECT_EQ(float_to_half(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  EXPECT_EQ(float_to_half(std::bit_cast<float>(0xff800001u)),
            0xfe00);  // a signalling NaN with a low payload stays a NaN
}

TEST(Bfloat16, ConvertsExactlyAndRoundsTiesToEven) {
  EXPECT_EQ(bfloat16_to_float(0x3f80), 1.0f);
  EXPECT_EQ(bfloat16_to_float(0xc0a0), -5.0f);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
}

TEST(Tensor, NamesAndBytes) {
  EXPECT_STREQ(name(DType::f32), "F32");
  EXPECT_STREQ(name(DType::f16), "F16");
  EXPECT_STREQ(name(DType::bf16), "BF16");
  EXPECT_STREQ(name(DType::q8_0), "Q8_0");
  EXPECT_EQ(bytes_for(DType::f32, std::vector<uint64_t>{}), 4u);
  EXPECT_EQ(bytes_for(DType::f32, std::vector<uint64_t>{3, 5}), 60u);
  EXPECT_EQ(bytes_for(DType::f16, std::vector<uint64_t>{3, 5}), 30u);
  EXPECT_EQ(bytes_for(DType::bf16, std::vector<uint64_t>{3, 5}), 30u);
  EXPECT_EQ(bytes_for(DType::q8_0, std::vector<uint64_t>{3, 64}), 3u * 2 * 34);
  EXPECT_EQ(bytes_for(DType::q4_k, std::vector<uint64_t>{3, 512}), 3u * 2 * 144);
  EXPECT_EQ(bytes_for(DType::f32, std::vector<uint64_t>{3, 0}), 0u);
}

TEST(Tensor, RefusesShapesThatOverflowOrSplitBlocks) {
  expect_error(Code::bad_file, {"4294967296 times 4294967296", "64 bits"}, [] {
    bytes_for(DType::f16, std::vector<uint64_t>{1ull << 32, 1ull << 32});
  });
  expect_error(Code::bad_file, {"4611686018427387904 times 4", "bytes"},
               [] { bytes_for(DType::f32, std::vector<uint64_t>{1ull << 62}); });
  expect_error(Code::bad_file, {"48 elements", "block of 32"}, [] {
    bytes_for(DType::q8_0, std::vector<uint64_t>{2, 48});
  });
}

// 2 rows of 64, at an odd address; scales 0.5, -2, 0.25, 1; element k of block b is k - 16 + b.
struct Q8Sample {
  std::vector<std::byte> memory = std::vector<std::byte>(1 + 4 * 34);
  TensorView tensor{"q", DType::q8_0, {2, 64}, std::span<const std::byte>(memory).subspan(1)};
  static constexpr float scales[4] = {0.5f, -2.0f, 0.25f, 1.0f};
  Q8Sample() {
    for (int b = 0; b < 4; ++b) {
      const uint16_t scale = float_to_half(scales[b]);
      std::memcpy(&memory[1 + b * 34], &scale, 2);
      for (int k = 0; k < 32; ++k) memory[1 + b * 34 + 2 + k] = static_cast<std::byte>(k - 16 + b);
    }
  }
  static float expected(int i) { return scales[i / 32] * static_cast<float>(i % 32 - 16 + i / 32); }
};

TEST(Tensor, DecodesQ8InWholeAndInPart) {
  const Q8Sample sample;
  const auto all = floats_of(sample.tensor);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(all[i], Q8Sample::expected(i)) << i;
  std::vector<float> part(45);
  to_float(sample.tensor, 32, part);
  for (int i = 0; i < 45; ++i) EXPECT_EQ(part[i], Q8Sample::expected(32 + i)) << i;
}

TEST(Tensor, RefusesRangesOutsideIt) {
  const Q8Sample sample;
  std::vector<float> out(64);
  expect_error(Code::invalid_argument, {"q", "elements 96 to 160", "128"}, [&] { to_float(sample.tensor, 96, out); });
  expect_error(Code::invalid_argument, {"q", "128"}, [&] { to_float(sample.tensor, ~uint64_t{0} - 31, out); });
  expect_error(Code::invalid_argument, {"q", "element 33", "32"}, [&] { to_float(sample.tensor, 33, out); });
  to_float(sample.tensor, 128, {});
}

TEST(Tensor, DecodesFloatsAtOddAddresses) {
  std::vector<std::byte> memory(1 + 12);
  const auto at = std::span<const std::byte>(memory).subspan(1);
  const float floats[3] = {1.5f, -2.25f, 1e30f};
  std::memcpy(&memory[1], floats, 12);
  EXPECT_EQ(floats_of({"f", DType::f32, {3}, at}), (std::vector<float>{1.5f, -2.25f, 1e30f}));
  const uint16_t halves[3] = {0x3c00, 0xc000, 0x0001};
  std::memcpy(&memory[1], halves, 6);
  EXPECT_EQ(floats_of({"h", DType::f16, {3}, at.first(6)}), (std::vector<float>{1.0f, -2.0f, 0x1p-24f}));
  std::vector<float> last(1);
  to_float({"h", DType::f16, {3}, at.first(6)}, 2, last);
  EXPECT_EQ(last[0], 0x1p-24f);
  const uint16_t brains[3] = {0x3f80, 0xc0a0, 0x0000};
  std::memcpy(&memory[1], brains, 6);
  EXPECT_EQ(floats_of({"b", DType::bf16, {3}, at.first(6)}), (std::vector<float>{1.0f, -5.0f, 0.0f}));
}

}  // namespace
}  // namespace weft
