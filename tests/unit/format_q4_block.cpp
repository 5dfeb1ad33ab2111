// Blocks of q4: how closely they fit numbers, and their conversion from GGUF's blocks of four bits.
#include "format/q4_block.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "format/model_file.h"
#include "format/packed_row.h"
#include "format_support.h"
#include "support/source_folder.h"

namespace weft {
namespace {

double value_of(const Q4Block& block, size_t i) {
  return double{half_to_float(block.scale)} * block.quants[i] + half_to_float(block.minimum);
}
double error_of(const Q4Block& block, const std::vector<float>& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += std::pow(value_of(block, i) - values[i], 2);
  return sum;
}

// The least squared error of all lines through a fine grid of ends, without the rounding of scale and minimum.
double searched(const std::vector<float>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  const double range = double{high} - low;
  double best = INFINITY;
  for (int a = -10; a <= 40; ++a)
    for (int b = -10; b <= 40; ++b) {
      const double from = low + range * a / 100, scale = (high - range * b / 100 - from) / 15;
      double sum = 0;
      for (const float value : values) {
        const double q = scale > 0 ? std::clamp(std::nearbyint((value - from) / scale), 0.0, 15.0) : 0;
        sum += std::pow(from + scale * q - value, 2);
      }
      best = std::min(best, sum);
    }
  return best;
}

// The same with every standard library, unlike std::normal_distribution (Box and Muller 1958).
std::vector<float> normals(std::mt19937& engine, size_t count, float scale) {
  const auto uniform = [&] { return (engine() + 0.5) / 4294967296.0; };
  std::vector<float> values(count);
  for (float& value : values) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    value = static_cast<float>(scale * radius * std::cos(6.283185307179586 * uniform()));
  }
  return values;
}

// The range divided by 15.
double ranged(const std::vector<float>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  const double scale = (double{high} - low) / 15;
  double sum = 0;
  for (const float value : values) sum += std::pow(low + scale * std::nearbyint((value - low) / scale) - value, 2);
  return sum;
}

TEST(Q4Block, IsNearTheBestThereIs) {
  std::mt19937 engine(1);
  double found = 0, best = 0, plain = 0;
  for (const size_t count : {32u, 32u, 32u, 17u, 3u})
    for (int i = 0; i < 40; ++i) {
      std::vector<float> values = normals(engine, count, 0.05f);
      if (i % 4 == 1) values[count / 2] *= 8;  // an outlier
      if (i % 4 == 2)
        for (float& value : values) value += 0.3f;  // far from 0
      const double error = error_of(fit_q4(values), values), least = searched(values);
      EXPECT_LT(error, 1.8 * least + 2e-5) << i;
      EXPECT_LT(error, 1.02 * ranged(values) + 1e-5) << i;  // but for f16
      found += error;
      best += least;
      plain += ranged(values);
    }
  EXPECT_LT(found, 1.05 * best);
  EXPECT_LT(found, 0.87 * plain);
}

TEST(Q4Block, ABlockOnALineStaysAsItIs) {
  std::mt19937 engine(2);
  for (int i = 0; i < 200; ++i) {
    const float scale = half_to_float(float_to_half(0.001f * static_cast<float>(1 + engine() % 100)));
    const float minimum = half_to_float(float_to_half(0.01f * (static_cast<float>(engine() % 200) - 100)));
    std::vector<float> values(32);
    for (size_t e = 0; e < 32; ++e)
      values[e] = scale * static_cast<float>(e == 3 ? 0 : e == 20 ? 15 : engine() % 16) + minimum;
    EXPECT_EQ(error_of(fit_q4(values), values), 0) << scale << ", " << minimum;
  }
}

TEST(Q4Block, ExtremesStayFinite) {
  for (const std::vector<float>& values : std::vector<std::vector<float>>{{0},
                                                                          {1},
                                                                          {-65504, 65504},
                                                                          {65504, 65504, 65504},
                                                                          {-65504, -65504, 0},
                                                                          {1e-12f, -1e-12f},
                                                                          {3e-8f, -3e-8f},
                                                                          {1e-5f, 2e-5f, 9e-5f},
                                                                          {0, 0, 0, 1e-6f}}) {
    const Q4Block block = fit_q4(values);
    const auto [low, high] = std::ranges::minmax(values);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_LE(block.quants[i], 15);
      EXPECT_NEAR(value_of(block, i), values[i], (high - low) / 2000 + std::abs(values[i]) / 2000 + 16 * 0x1p-25)
          << values[0];
    }
  }
}

// A row packed to q4, as floats.
std::vector<float> unpacked(const TensorView& tensor, uint64_t row, Rounding& rounding) {
  RowPacker packer(DType::q4_1, tensor.shape[1]);
  const PackedRow& packed = packer.pack(tensor, row, rounding);
  std::vector<float> values(tensor.shape[1]);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = half_to_float(packed.halves[i / 32]) * static_cast<float>(packed.bytes[i]) +
                half_to_float(packed.minima[i / 32]);
  return values;
}

// The sample's blocks were made with numpy; f16 scales of any size, subnormal ones too.
TEST(Q4Block, FourBitTypesKeepTheirIntegers) {
  const ModelFile model = open_model(source_folder() / "tests/unit/golden/format/quants.gguf");
  for (const DType dtype : {DType::q4_0, DType::q4_1, DType::q4_k}) {
    const TensorView& tensor = *model.find(name(dtype));
    std::vector<float> all(element_count(tensor.shape));
    to_float(tensor, 0, all);
    uint32_t compared = 0;
    for (uint64_t row = 0; row < tensor.shape[0]; ++row) {
      const std::span<const float> want = std::span(all).subspan(row * tensor.shape[1], tensor.shape[1]);
      if (!std::ranges::all_of(want, [](float v) { return std::abs(v) <= 60000; })) continue;
      Rounding rounding;
      const std::vector<float> got = unpacked(tensor, row, rounding);
      double largest = 0;
      for (size_t i = 0; i < got.size(); ++i) {
        largest = std::max<double>(largest, std::abs(got[i] - want[i]));
        ++compared;
      }
      EXPECT_EQ(rounding.largest_error, largest) << name(dtype);
      if (dtype != DType::q4_k) {
        EXPECT_EQ(largest, 0) << name(dtype);
      }
      // 15 times half a unit of an 11-bit scale, and half a unit of the minimum; neither exceeds the largest value by
      // more than the other brings back.
      EXPECT_LE(largest, 3 * 0x1p-11 * rounding.largest_value + 16 * 0x1p-25) << name(dtype);
    }
    EXPECT_GT(compared, 300u) << name(dtype);
  }
}

TEST(Q4Block, RefusesWhatF16CannotHold) {
  for (const float bad : {NAN, INFINITY, -INFINITY, 1e30f}) {
    std::vector<float> values(3 * 40, 1.0f);
    values[2 * 40 + 33] = bad;
    const TensorView tensor = {"blk.0.x", DType::f32, {3, 40}, std::as_bytes(std::span(values))};
    Rounding rounding;
    expect_error(Code::unsupported, {"tensor blk.0.x", "(2, 33)"}, [&] { unpacked(tensor, 2, rounding); });
  }
  std::vector<std::byte> block(18, std::byte{0x88});  // 8 times this scale is no f16, though the values are 0
  const uint16_t scale = float_to_half(9000);
  std::memcpy(block.data(), &scale, 2);
  const TensorView tensor = {"blk.0.y", DType::q4_0, {1, 32}, block};
  Rounding rounding;
  expect_error(Code::unsupported, {"tensor blk.0.y", "-72000"}, [&] { unpacked(tensor, 0, rounding); });
}

}  // namespace
}  // namespace weft
