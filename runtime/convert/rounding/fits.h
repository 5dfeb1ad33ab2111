// The least squares of a block. For the rounders of this folder only. Sums are kept in eight parts, which compilers
// turn into vectors: the order of the additions is the same everywhere.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace weft {

inline constexpr uint32_t kLanes = 8;
struct Lanes {
  float at[kLanes] = {};
  float sum() const { return ((at[0] + at[4]) + (at[2] + at[6])) + ((at[1] + at[5]) + (at[3] + at[7])); }
};

// For magnitudes below 2^22; ties to even.
inline float nearest_integer(float value) {
  constexpr float kMagic = 0x1.8p23f;
  return (value + kMagic) - kMagic;
}
inline float between(float value, float low, float high) {
  value = value > low ? value : low;
  return value < high ? value : high;
}
// 0 for a scale so small that its values vanish anyway.
inline float inverse_of(float scale) { return std::abs(scale) > 1e-30f ? 1 / scale : 0; }

// The integer of low .. high for which offset + scale * integer is nearest to the value.
inline float nearest(float value, float offset, float inverse, float low, float high) {
  return nearest_integer(between((value - offset) * inverse, low, high));
}

// A scale as f16 holds it; the largest one instead of infinity.
inline uint16_t to_half(float scale) {
  const uint16_t half = float_to_half(scale);
  return (half & 0x7c00) == 0x7c00 ? static_cast<uint16_t>(half - 1) : half;
}
inline void store_half(std::byte* at, uint16_t half) { std::memcpy(at, &half, sizeof half); }

// Sums of importance * integer^2, and of importance * integer * value.
struct ScaleSums {
  float qq, qx;
  float scale() const { return qq > 0 ? qx / qq : 0; }        // of least squares
  float gain() const { return qq > 0 ? qx * (qx / qq) : 0; }  // by how much that scale reduces the squared error
};
template <uint32_t kCount>
ScaleSums scale_sums(const float* values, const float* importance, float scale, float low, float high) {
  const float inverse = inverse_of(scale);
  Lanes qq, qx;
  for (uint32_t i = 0; i < kCount; i += kLanes)
    for (uint32_t l = 0; l < kLanes; ++l) {
      const float q = nearest(values[i + l], 0, inverse, low, high), wq = importance[i + l] * q;
      qq.at[l] += wq * q;
      qx.at[l] += wq * values[i + l];
    }
  return {qq.sum(), qx.sum()};
}

inline float largest(const float* values, uint32_t count) {
  float largest = 0;
  for (uint32_t i = 0; i < count; ++i)
    if (std::abs(values[i]) > std::abs(largest)) largest = values[i];
  return largest;
}

// A scale for integers of -levels .. levels - 1. The largest value becomes -levels or, with the other sign of the
// scale, levels - 1, or is cut off by up to four steps in eight.
template <uint32_t kCount>
float fit_scale(const float* values, const float* importance, int levels) {
  const float most = largest(values, kCount), low = static_cast<float>(-levels), high = static_cast<float>(levels - 1);
  float best = 0, gain = 0;
  const auto attempt = [&](float scale) {
    const ScaleSums sums = scale_sums<kCount>(values, importance, scale, low, high);
    if (!(sums.gain() > gain)) return false;
    gain = sums.gain();
    best = sums.scale();
    return true;
  };
  for (int half_steps = -2; half_steps <= 8; ++half_steps)
    for (const float sign : {-1.0f, 1.0f})
      attempt(most / (sign * (static_cast<float>(levels) + 0.5f * static_cast<float>(half_steps))));
  for (int again = 0; again < 4 && attempt(best); ++again) {
  }
  return best;
}

// value = scale * integer + minimum.
struct Line {
  float scale = 0, minimum = 0;
};

// The line of least squares for integers of 0 .. most. `below`: its minimum is at most 0.
template <uint32_t kCount>
class LineFit {
 public:
  LineFit(const float* values, const float* importance, int most, bool below)
      : values_(values), importance_(importance), most_(static_cast<float>(most)), below_(below) {
    low_ = high_ = values[0];
    Lanes w, x, xx;
    for (uint32_t i = 0; i < kCount; i += kLanes)
      for (uint32_t l = 0; l < kLanes; ++l) {
        const float value = values[i + l], part = importance[i + l];
        low_ = value < low_ ? value : low_;
        high_ = value > high_ ? value : high_;
        w.at[l] += part;
        x.at[l] += part * value;
        xx.at[l] += part * value * value;
      }
    w_ = w.sum(), x_ = x.sum(), xx_ = xx.sum();
    if (below && low_ > 0) low_ = 0;
    if (below && high_ < 0) high_ = 0;
  }

  Line best() {
    const float step = (high_ - low_) / most_;
    best_ = {step, low_};
    if (!(step > 0)) return best_;
    for (const float cut_low : kCuts)
      for (const float cut_high : kCuts) {
        const float low = low_ + cut_low * step, high = high_ - cut_high * step;
        attempt({(high - low) / most_, below_ && low > 0 ? 0 : low});
      }
    for (int again = 0; again < 4 && attempt(best_); ++again) {
    }
    return best_;
  }

 private:
  // Steps that are cut off each end of the range; negative ones make it wider.
  static constexpr float kCuts[] = {-0.3f, 0.2f, 0.7f, 1.3f, 2.0f};

  // Takes the least squares of the integers that a line gives, if they are better. Their error follows from the sums.
  bool attempt(const Line& line) {
    const float inverse = inverse_of(line.scale);
    Lanes q1, qq, qx;
    for (uint32_t i = 0; i < kCount; i += kLanes)
      for (uint32_t l = 0; l < kLanes; ++l) {
        const float q = nearest(values_[i + l], line.minimum, inverse, 0, most_), wq = importance_[i + l] * q;
        q1.at[l] += wq;
        qq.at[l] += wq * q;
        qx.at[l] += wq * values_[i + l];
      }
    const Line found = solve(q1.sum(), qq.sum(), qx.sum());
    const float error = xx_ - found.scale * qx.sum() - found.minimum * x_;
    if (!(error < error_) || !(found.scale > 0)) return false;
    error_ = error;
    best_ = found;
    return true;
  }
  Line solve(float q, float qq, float qx) const {
    const float determinant = w_ * qq - q * q;
    Line line;
    if (determinant > 0) {
      line.scale = (w_ * qx - q * x_) / determinant;
      line.minimum = (qq * x_ - q * qx) / determinant;
    }
    if (determinant > 0 && !(below_ && line.minimum > 0)) return line;
    return {qq > 0 ? qx / qq : 0, 0};
  }

  const float *values_, *importance_;
  float most_;
  bool below_;
  float low_, high_, w_, x_, xx_;
  float error_ = INFINITY;
  Line best_;
};

}  // namespace weft
