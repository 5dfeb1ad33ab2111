// Blocks of 256 values, whose parts have scales (and minima) that are small integers times those of the block.
#include <algorithm>
#include <array>

#include "convert/rounding/fits.h"
#include "convert/rounding/rounding.h"

namespace weft {
namespace {

constexpr uint32_t kSuper = 256;

// Q4_K and Q5_K: value = (d * scale) q - (dmin * minimum), a scale and a minimum of 6 bits for each 32 values.
constexpr uint32_t kPart = 32, kParts = kSuper / kPart;
constexpr int kMostSmall = 63;

struct PartChoice {
  int scale = 0, minimum = 0;
};

template <int kMost>
struct LinesBlock {
  const float *values, *importance;
  uint16_t d = 0, dmin = 0;
  std::array<PartChoice, kParts> parts = {};
  float error = INFINITY;

  static float quant(float value, const Line& line, float inverse) {
    return nearest(value, line.minimum, inverse, 0, kMost);
  }
  Line line_of(const PartChoice& part) const {
    return {half_to_float(d) * static_cast<float>(part.scale), -half_to_float(dmin) * static_cast<float>(part.minimum)};
  }
  float error_of(uint32_t part, const Line& line) const {
    const float inverse = inverse_of(line.scale);
    const float *const x = values + part * kPart, *const w = importance + part * kPart;
    Lanes sum;
    for (uint32_t i = 0; i < kPart; i += kLanes)
      for (uint32_t l = 0; l < kLanes; ++l) {
        const float off = line.scale * quant(x[i + l], line, inverse) + line.minimum - x[i + l];
        sum.at[l] += w[i + l] * off * off;
      }
    return sum.sum();
  }

  // The best small integers near those of the wanted lines, given d and dmin.
  void choose_parts(const std::array<Line, kParts>& wanted) {
    const float per_scale = inverse_of(half_to_float(d)), per_minimum = inverse_of(half_to_float(dmin));
    error = 0;
    for (uint32_t part = 0; part < kParts; ++part) {
      const auto scale = static_cast<int>(between(wanted[part].scale * per_scale + 0.5f, 0, kMostSmall));
      const auto minimum = static_cast<int>(between(-wanted[part].minimum * per_minimum + 0.5f, 0, kMostSmall));
      float least = INFINITY;
      for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kMostSmall); ++s)
        for (int m = std::max(minimum - 1, 0); m <= std::min(minimum + 1, kMostSmall); ++m) {
          const float found = error_of(part, line_of({s, m}));
          if (!(found < least)) continue;
          least = found;
          parts[part] = {s, m};
        }
      error += least;
    }
  }

  // d and dmin by least squares, given the integers of parts and values.
  bool refit() {
    double ss = 0, sm = 0, mm = 0, sx = 0, mx = 0;
    for (uint32_t part = 0; part < kParts; ++part) {
      const Line line = line_of(parts[part]);
      const float inverse = inverse_of(line.scale);
      const auto minimum = static_cast<float>(parts[part].minimum), scale = static_cast<float>(parts[part].scale);
      const float *const x = values + part * kPart, *const w = importance + part * kPart;
      Lanes w1, q1, qq, x1, qx;
      for (uint32_t i = 0; i < kPart; i += kLanes)
        for (uint32_t l = 0; l < kLanes; ++l) {
          const float q = scale * quant(x[i + l], line, inverse), wq = w[i + l] * q;
          w1.at[l] += w[i + l];
          q1.at[l] += wq;
          qq.at[l] += wq * q;
          x1.at[l] += w[i + l] * x[i + l];
          qx.at[l] += wq * x[i + l];
        }
      ss += qq.sum();
      sm += q1.sum() * minimum;
      mm += w1.sum() * minimum * minimum;
      sx += qx.sum();
      mx += x1.sum() * minimum;
    }
    // The least of sum w (d s - dmin m - x)^2.
    const double determinant = ss * mm - sm * sm;
    double next_d = ss > 0 ? sx / ss : 0, next_dmin = 0;
    if (determinant > 1e-6 * ss * mm) {
      next_d = (mm * sx - sm * mx) / determinant;
      next_dmin = (sm * sx - ss * mx) / determinant;
    }
    if (!(next_d > 0) || !(next_dmin >= 0)) return false;
    d = to_half(static_cast<float>(next_d));
    dmin = to_half(static_cast<float>(next_dmin));
    return true;
  }

  std::array<Line, kParts> lines() const {
    std::array<Line, kParts> all;
    for (uint32_t part = 0; part < kParts; ++part) all[part] = line_of(parts[part]);
    return all;
  }
};

template <int kMost>
LinesBlock<kMost> fit_lines(const float* values, const float* importance) {
  std::array<Line, kParts> wanted;
  float most_scale = 0, most_minimum = 0;
  for (uint32_t part = 0; part < kParts; ++part) {
    wanted[part] = LineFit<kPart>(values + part * kPart, importance + part * kPart, kMost, true).best();
    most_scale = std::max(most_scale, wanted[part].scale);
    most_minimum = std::max(most_minimum, -wanted[part].minimum);
  }
  LinesBlock<kMost> best = {values, importance};
  best.d = to_half(most_scale / kMostSmall);
  best.dmin = to_half(most_minimum / kMostSmall);
  best.choose_parts(wanted);
  for (int again = 0; again < 3; ++again) {
    LinesBlock<kMost> next = best;
    if (!next.refit()) break;
    // The line that a part has now may be far from the one it wants, and the next d nearer to that.
    next.choose_parts(again == 0 ? wanted : next.lines());
    if (!(next.error < best.error)) break;
    best = next;
  }
  return best;
}

// 12 bytes, as format/quants.cpp has them.
void store_small(const std::array<PartChoice, kParts>& parts, std::byte* to) {
  for (uint32_t part = 0; part < 4; ++part) {
    const PartChoice &low = parts[part], &high = parts[part + 4];
    to[part] = static_cast<std::byte>(low.scale | high.scale >> 4 << 6);
    to[part + 4] = static_cast<std::byte>(low.minimum | high.minimum >> 4 << 6);
    to[part + 8] = static_cast<std::byte>((high.scale & 15) | (high.minimum & 15) << 4);
  }
}

template <int kMost>
void round_lines(const float* values, const float* importance, std::byte* out) {
  const LinesBlock<kMost> block = fit_lines<kMost>(values, importance);
  constexpr uint32_t kFifth = kMost > 15 ? 32 : 0;
  std::memset(out, 0, 16 + kFifth + kSuper / 2);
  store_half(out, block.d);
  store_half(out + 2, block.dmin);
  store_small(block.parts, out + 4);
  std::byte *const fifth = out + 16, *const four = fifth + kFifth;
  for (uint32_t e = 0; e < kSuper; ++e) {
    const Line line = block.line_of(block.parts[e / kPart]);
    const auto q = static_cast<uint32_t>(block.quant(values[e], line, inverse_of(line.scale)));
    four[e / 64 * 32 + e % 32] |= static_cast<std::byte>((q & 15) << e % 64 / 32 * 4);
    if (kFifth) fifth[e % 32] |= static_cast<std::byte>(q >> 4 << e / 32);
  }
}

// Q6_K: value = (d * scale) (q - 32), a scale of 8 bits for each 16 values.
constexpr uint32_t kSixPart = 16, kSixParts = kSuper / kSixPart;
constexpr int kSixLevels = 32;

struct ScalesBlock {
  const float *values, *importance;
  uint16_t d = 0;
  std::array<int, kSixParts> scales = {};
  float gain = -1;  // over zeros

  static float quant(float value, float inverse) { return nearest(value, 0, inverse, -kSixLevels, kSixLevels - 1); }

  // The best small integers near those of the wanted scales, given d.
  void choose_parts(const std::array<float, kSixParts>& wanted) {
    const float unit = half_to_float(d), inverse = inverse_of(unit);
    gain = 0;
    for (uint32_t part = 0; part < kSixParts; ++part) {
      const auto near = static_cast<int>(nearest_integer(between(wanted[part] * inverse, -128, 127)));
      float most = -INFINITY;
      for (int s = std::max(near - 1, -128); s <= std::min(near + 1, 127); ++s) {
        const float scale = unit * static_cast<float>(s);
        const ScaleSums sums = scale_sums<kSixPart>(values + part * kSixPart, importance + part * kSixPart, scale,
                                                    -kSixLevels, kSixLevels - 1);
        const float found = scale * (2 * sums.qx - scale * sums.qq);
        if (!(found > most)) continue;
        most = found;
        scales[part] = s;
      }
      gain += most;
    }
  }

  // d by least squares, given the integers of parts and values.
  bool refit() {
    double ss = 0, sx = 0;
    for (uint32_t part = 0; part < kSixParts; ++part) {
      const double scale = scales[part];
      const ScaleSums sums =
          scale_sums<kSixPart>(values + part * kSixPart, importance + part * kSixPart,
                               half_to_float(d) * static_cast<float>(scale), -kSixLevels, kSixLevels - 1);
      ss += scale * scale * sums.qq;
      sx += scale * sums.qx;
    }
    if (!(ss > 0)) return false;
    d = to_half(static_cast<float>(sx / ss));
    return true;
  }
};

void round_q6_k(const float* values, const float* importance, std::byte* out) {
  std::array<float, kSixParts> wanted;
  for (uint32_t part = 0; part < kSixParts; ++part)
    wanted[part] = fit_scale<kSixPart>(values + part * kSixPart, importance + part * kSixPart, kSixLevels);
  ScalesBlock best = {values, importance};
  best.d = to_half(largest(wanted.data(), kSixParts) / -128);
  best.choose_parts(wanted);
  for (int again = 0; again < 2; ++again) {
    ScalesBlock next = best;
    if (!next.refit()) break;
    next.choose_parts(wanted);
    if (!(next.gain > best.gain)) break;
    best = next;
  }
  std::memset(out, 0, 192);
  for (uint32_t e = 0; e < kSuper; ++e) {
    const float scale = half_to_float(best.d) * static_cast<float>(best.scales[e / kSixPart]);
    const auto q = static_cast<uint32_t>(ScalesBlock::quant(values[e], inverse_of(scale)) + kSixLevels);
    out[e / 128 * 64 + e % 64] |= static_cast<std::byte>((q & 15) << e % 128 / 64 * 4);
    out[128 + e / 128 * 32 + e % 32] |= static_cast<std::byte>(q >> 4 << e % 128 / 32 * 2);
  }
  for (uint32_t part = 0; part < kSixParts; ++part) out[192 + part] = static_cast<std::byte>(best.scales[part]);
  store_half(out + 208, best.d);
}

}  // namespace

BlockRounder super_rounder(DType type) {
  switch (type) {
    case DType::q4_k:
      return round_lines<15>;
    case DType::q5_k:
      return round_lines<31>;
    case DType::q6_k:
      return round_q6_k;
    default:
      return nullptr;
  }
}

}  // namespace weft
