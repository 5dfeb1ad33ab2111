// Rounding to block types by search: close to the best that exists, and never worse than the plain rounding.
#include "convert/rounding/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "format/quants.h"
#include "format_support.h"
#include "support/quantise.h"

namespace weft {
namespace {

constexpr DType kTypes[] = {DType::q4_0,  DType::q5_0, DType::q5_1, DType::iq4_nl,
                            DType::mxfp4, DType::q4_k, DType::q5_k, DType::q6_k};
using Floats = std::vector<float>;

std::vector<std::byte> rounded(DType type, const Floats& values, const Floats& importance = {}) {
  std::vector<std::byte> bytes(bytes_for(type, std::vector<uint64_t>{values.size()}));
  round_row(type, values, importance, bytes.data());
  return bytes;
}
Floats decoded(DType type, const std::vector<std::byte>& bytes, size_t count) {
  Floats values(count);
  to_float({"x", type, {count}, bytes}, 0, values);
  return values;
}
double error_of(const Floats& values, const Floats& kept, const Floats& importance = {}) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double off = kept[i] - values[i];
    sum += off * off * (importance.empty() ? 1 : importance[i]);
  }
  return sum;
}
double error(DType type, const Floats& values, const Floats& importance = {}) {
  return error_of(values, decoded(type, rounded(type, values, importance), values.size()), importance);
}

// Bell-shaped, as weights are: sums of twelve numbers that are the same in every library.
Floats bell(size_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  Floats values(count);
  for (float& value : values) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random() - 1) / 2147483646.0;
    value = static_cast<float>(0.05 * sum);
  }
  return values;
}
// Factors over three powers of ten.
Floats factors(size_t count, uint32_t seed) {
  Floats values = bell(count, seed);
  for (float& value : values) value = std::pow(10.0f, value * 20);
  return values;
}

TEST(Rounding, ErrorsOfBellShapedNumbers) {
  const Floats values = bell(16 * 256, 1);
  double square = 0;
  for (const float value : values) square += double{value} * value;
  // Root mean squares of the errors, relative to the numbers'; ggml's plain rounding to Q4_0 has 0.093, to Q5_0 0.046.
  const std::pair<DType, double> most[] = {{DType::q4_0, 0.0830},   {DType::q5_0, 0.0415},  {DType::q5_1, 0.0380},
                                           {DType::iq4_nl, 0.0730}, {DType::mxfp4, 0.1140}, {DType::q4_k, 0.0770},
                                           {DType::q5_k, 0.0385},   {DType::q6_k, 0.0185}};
  for (const auto& [type, bound] : most) EXPECT_LT(std::sqrt(error(type, values) / square), bound) << name(type);
  for (const DType type : {DType::q4_0, DType::q5_0})
    for (size_t block = 0; block < values.size(); block += 32) {
      const Floats own(values.begin() + static_cast<ptrdiff_t>(block),
                       values.begin() + static_cast<ptrdiff_t>(block) + 32);
      EXPECT_LE(error(type, own), error_of(own, decoded(type, test::quantise(own, type), 32)) * (1 + 1e-5)) << block;
    }
}

// The best block of all scales, by brute force: 8,000 of them between a third and three times the range's.
double best_error(DType type, const Floats& values, const Floats& importance) {
  std::array<float, 16> list;
  for (int q = 0; q < 16; ++q)
    list[static_cast<size_t>(q)] =
        static_cast<float>(type == DType::q4_0 ? q - 8 : numbers_of(DType::iq4_nl).list[static_cast<size_t>(q)]);
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  double least = INFINITY;
  for (int step = 1; step <= 4000; ++step)
    for (const float sign : {-1.0f, 1.0f}) {
      const float scale = sign * most / std::abs(list[0]) * (0.3f + 2.7f * static_cast<float>(step) / 4000);
      double sum = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        float off = INFINITY;
        for (const float number : list) off = std::min(off, std::abs(scale * number - values[i]));
        sum += double{off} * off * importance[i];
      }
      least = std::min(least, sum);
    }
  return least;
}

TEST(Rounding, IsCloseToTheBestThatExists) {
  for (const DType type : {DType::q4_0, DType::iq4_nl}) {
    double found = 0, best = 0;
    for (uint32_t seed = 1; seed <= 8; ++seed) {
      const Floats values = bell(32, seed), importance = seed % 2 ? Floats(32, 1.0f) : factors(32, seed + 100);
      const double own = error(type, values, importance), bound = best_error(type, values, importance);
      EXPECT_LT(own, 1.25 * bound) << name(type) << " " << seed;
      found += own;
      best += bound;
    }
    EXPECT_LT(found, 1.04 * best) << name(type);
  }
  // Powers of two: all of them.
  for (uint32_t seed = 1; seed <= 16; ++seed) {
    const Floats values = bell(32, seed), importance = factors(32, seed + 100);
    const std::vector<std::byte> own = rounded(DType::mxfp4, values, importance);
    double least = INFINITY;
    for (int exponent = 100; exponent < 130; ++exponent) {
      std::vector<std::byte> block(17);
      double sum = 0;
      for (size_t i = 0; i < 32; ++i) {
        double off = INFINITY;
        for (const float size : {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f})
          off = std::min(off, std::abs(std::ldexp(double{size}, exponent - 127) - std::abs(values[i])));
        sum += off * off * importance[i];
      }
      least = std::min(least, sum);
    }
    EXPECT_NEAR(error_of(values, decoded(DType::mxfp4, own, 32), importance), least, 1e-5 * least) << seed;
  }
}

TEST(Rounding, ImportantColumnsAreNearer) {
  for (const DType type : kTypes) {
    const Floats values = bell(8 * 256, 3), importance = factors(values.size(), 4);
    const Floats plain = decoded(type, rounded(type, values), values.size());
    const double with = error(type, values, importance), without = error_of(values, plain, importance);
    // MXFP4 has one choice, the power of two; and 6 bits leave little to choose.
    EXPECT_LT(with, without * (type == DType::mxfp4 || type == DType::q6_k ? 0.999 : 0.93)) << name(type);
    EXPECT_EQ(rounded(type, values, Floats(values.size(), 1.0f)), rounded(type, values)) << name(type);
    EXPECT_EQ(rounded(type, values, Floats(values.size(), 0.0f)), rounded(type, values)) << name(type);
  }
}

TEST(Rounding, OnlyRatiosOfFactorsCount) {
  constexpr float kMost = std::numeric_limits<float>::max(), kLeast = std::numeric_limits<float>::denorm_min();
  for (const DType type : kTypes) {
    const Floats values = bell(256, 6);
    const auto plain = rounded(type, values);
    for (const float factor : {kLeast, 1e-40f, 1e-30f, 1e18f, 1e37f, kMost})
      EXPECT_TRUE(rounded(type, values, Floats(256, factor)) == plain) << name(type) << ", " << factor;
    // One column in eight matters 2^20 times as much as the others.
    const auto weighted = [&](float more, float less) {
      Floats importance(256, less);
      for (size_t i = 0; i < importance.size(); i += 8) importance[i] = more;
      return rounded(type, values, importance);
    };
    const auto want = weighted(0x1p20f, 1);
    EXPECT_TRUE(weighted(0x1p-100f, 0x1p-120f) == want) << name(type);
    EXPECT_TRUE(weighted(0x1p120f, 0x1p100f) == want) << name(type);
    EXPECT_TRUE(weighted(1, 0) == weighted(1, 1e-12f)) << name(type);
  }
}

// The kept numbers are finite, and none is farther from its own than the range of its block.
TEST(Rounding, OddBlocks) {
  std::vector<Floats> rows(10, Floats(256, 0.0f));
  rows[1][77] = 3;
  for (size_t i = 0; i < 256; ++i) {
    rows[2][i] = 0.25f;
    rows[3][i] = -65504;
    rows[4][i] = static_cast<float>(i % 2 ? 65504 : -65504);
    rows[5][i] = 1e-8f * static_cast<float>(i % 7);
    rows[6][i] = 1e-42f * static_cast<float>(i);
    rows[7][i] = 5 + 0.001f * static_cast<float>(i % 3);
    rows[8][i] = -5 - 0.001f * static_cast<float>(i % 3);
    rows[9][i] = i < 32 ? 60000 : 1e-5f * static_cast<float>(i % 5);
  }
  for (const DType type : kTypes)
    for (size_t row = 0; row < rows.size(); ++row) {
      float most = 0;
      for (const float value : rows[row]) most = std::max(most, std::abs(value));
      const Floats kept = decoded(type, rounded(type, rows[row]), 256);
      for (size_t i = 0; i < 256; ++i) {
        ASSERT_TRUE(std::isfinite(kept[i])) << name(type) << ", row " << row << ", element " << i;
        ASSERT_LE(std::abs(kept[i] - rows[row][i]), most / 3 + (row == 0 ? 0 : 1e-7f)) << name(type) << ", row " << row;
      }
    }
}

// AddressSanitizer sees what is written beside a block.
TEST(Rounding, WritesItsBlocksOnly) {
  for (const DType type : kTypes) {
    const Floats values = bell(block_elements(type), 5);
    std::unique_ptr<std::byte[]> out(new std::byte[block_bytes(type)]);
    round_row(type, values, {}, out.get());
  }
}

}  // namespace
}  // namespace weft
