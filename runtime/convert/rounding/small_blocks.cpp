// Blocks of 32 values with a scale of their own.
#include <algorithm>
#include <array>

#include "convert/rounding/fits.h"
#include "convert/rounding/rounding.h"
#include "format/quants.h"

namespace weft {
namespace {

constexpr uint32_t kCount = kQ8BlockElements;
using Quants = std::array<uint8_t, kCount>;

// The low halves of 16 bytes hold the first 16, the high halves the others.
void store_nibbles(const Quants& quants, std::byte* to) {
  for (uint32_t e = 0; e < kCount / 2; ++e)
    to[e] = static_cast<std::byte>((quants[e] & 15) | (quants[e + kCount / 2] & 15) << 4);
}
// Their fifth bits, in 4 bytes.
void store_fifth_bits(const Quants& quants, std::byte* to) {
  uint32_t bits = 0;
  for (uint32_t e = 0; e < kCount; ++e) bits |= static_cast<uint32_t>(quants[e] >> 4) << e;
  std::memcpy(to, &bits, sizeof bits);
}

// Integers of -levels .. levels - 1, stored with `levels` added.
template <int kLevels>
void round_symmetric(const float* values, const float* importance, std::byte* out) {
  const uint16_t scale = to_half(fit_scale<kCount>(values, importance, kLevels));
  const float inverse = inverse_of(half_to_float(scale));
  Quants quants;
  for (uint32_t e = 0; e < kCount; ++e)
    quants[e] = static_cast<uint8_t>(nearest(values[e], 0, inverse, -kLevels, kLevels - 1) + kLevels);
  store_half(out, scale);
  if (kLevels > 8) store_fifth_bits(quants, out + 2);
  store_nibbles(quants, out + (kLevels > 8 ? 6 : 2));
}

void round_q5_1(const float* values, const float* importance, std::byte* out) {
  const Line line = LineFit<kCount>(values, importance, 31, false).best();
  const uint16_t scale = to_half(line.scale), minimum = to_half(line.minimum);
  const float inverse = inverse_of(half_to_float(scale)), least = half_to_float(minimum);
  Quants quants;
  for (uint32_t e = 0; e < kCount; ++e) quants[e] = static_cast<uint8_t>(nearest(values[e], least, inverse, 0, 31));
  store_half(out, scale);
  store_half(out + 2, minimum);
  store_fifth_bits(quants, out + 4);
  store_nibbles(quants, out + 8);
}

// The nearest of a list's numbers, by the value in steps of 1 / kPerUnit: the middles between numbers are such steps.
template <uint32_t kPerUnit, uint32_t kSteps>
struct NearestOfList {
  float first;  // the lowest step
  std::array<uint8_t, kSteps> place;

  NearestOfList(std::span<const float> list) : first(*std::ranges::min_element(list)) {
    for (uint32_t step = 0; step < kSteps; ++step) {
      const float middle = first + (static_cast<float>(step) + 0.5f) / kPerUnit;
      const auto nearer = [&](float a, float b) { return std::abs(a - middle) < std::abs(b - middle); };
      place[step] = static_cast<uint8_t>(std::ranges::min_element(list, nearer) - list.begin());
    }
  }
  uint8_t operator()(float value) const {
    return place[static_cast<uint32_t>(between((value - first) * kPerUnit, 0, kSteps - 1))];
  }
};

struct Iq4Nl {
  std::array<float, 16> list;
  NearestOfList<2, 480> nearest;
  Iq4Nl() : Iq4Nl(numbers_of(DType::iq4_nl).list) {}

 private:
  static std::array<float, 16> floats(const std::array<int8_t, 16>& list) {
    std::array<float, 16> result;
    std::ranges::copy(list, result.begin());
    return result;
  }
  Iq4Nl(const std::array<int8_t, 16>& numbers) : list(floats(numbers)), nearest(list) {}
};

void round_iq4_nl(const float* values, const float* importance, std::byte* out) {
  static const Iq4Nl numbers;
  float best = 0, gain = 0;
  const auto attempt = [&](float scale) {
    const float inverse = inverse_of(scale);
    ScaleSums sums = {0, 0};
    for (uint32_t e = 0; e < kCount; ++e) {
      const float number = numbers.list[numbers.nearest(values[e] * inverse)], wq = importance[e] * number;
      sums.qq += wq * number;
      sums.qx += wq * values[e];
    }
    if (!(sums.gain() > gain)) return false;
    gain = sums.gain();
    best = sums.scale();
    return true;
  };
  // The largest value becomes one that is larger or smaller than the list's ends by up to this factor.
  const float most = largest(values, kCount);
  for (const float factor : {0.88f, 0.94f, 1.0f, 1.06f, 1.12f, 1.18f, 1.26f, 1.36f})
    for (const float end : {numbers.list.front(), numbers.list.back()}) attempt(most / (factor * end));
  for (int again = 0; again < 3 && attempt(best); ++again) {
  }
  const uint16_t scale = to_half(best);
  const float inverse = inverse_of(half_to_float(scale));
  Quants quants;
  for (uint32_t e = 0; e < kCount; ++e) quants[e] = numbers.nearest(values[e] * inverse);
  store_half(out, scale);
  store_nibbles(quants, out + 2);
}

// The sizes of E2M1's numbers.
constexpr std::array<float, 8> kSizes = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

// The scale is a power of two: there are few candidates.
void round_mxfp4(const float* values, const float* importance, std::byte* out) {
  static const NearestOfList<4, 28> nearest_size(kSizes);
  constexpr int kBias = 127, kMostExponent = 254;
  const float most = std::abs(largest(values, kCount));
  const int top = most > 0 ? std::ilogb(most) - 2 : -kBias;  // 6 is 1.5 * 2^2
  float least = INFINITY;
  Quants best = {};
  int best_exponent = 0;
  for (int exponent = top - 1; exponent <= top + 1 && most > 0; ++exponent) {
    const int stored = std::clamp(exponent + kBias, 0, kMostExponent);
    const float scale = std::ldexp(1.0f, stored - kBias);
    Quants quants;
    float error = 0;
    for (uint32_t e = 0; e < kCount; ++e) {
      const float size = std::abs(values[e]);
      quants[e] = nearest_size(size / scale);
      const float off = size - scale * kSizes[quants[e]];
      error += importance[e] * off * off;
      if (values[e] < 0 && quants[e] > 0) quants[e] |= 8;
    }
    if (!(error < least)) continue;
    least = error;
    best = quants;
    best_exponent = stored;
  }
  out[0] = static_cast<std::byte>(best_exponent);
  store_nibbles(best, out + 1);
}

}  // namespace

BlockRounder small_rounder(DType type) {
  switch (type) {
    case DType::q4_0:
      return round_symmetric<8>;
    case DType::q5_0:
      return round_symmetric<16>;
    case DType::q5_1:
      return round_q5_1;
    case DType::iq4_nl:
      return round_iq4_nl;
    case DType::mxfp4:
      return round_mxfp4;
    default:
      return nullptr;
  }
}

}  // namespace weft
