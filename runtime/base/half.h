// IEEE 754 binary16 <-> binary32, in integer arithmetic that does not depend on the thread's flush-to-zero mode.
#pragma once

#include <bit>
#include <cstdint>

namespace weft {

// Exact: every half is a float. NaNs keep their payload and sign.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = half & 0x7c00u;
  const uint32_t mantissa = half & 0x03ffu;
  constexpr uint32_t rebias = (127 - 15) << 23;
  // A subnormal is mantissa * 2^-24; written without a branch so that loops over rows vectorise.
  const uint32_t subnormal = std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f);
  uint32_t bits = (static_cast<uint32_t>(half & 0x7fffu) << 13) + rebias;
  bits = exponent == 0x7c00u ? bits + rebias : bits;  // infinities and NaNs
  bits = exponent == 0 ? subnormal : bits;
  return std::bit_cast<float>(bits | sign);
}

// Rounds to nearest, ties to even; values that round beyond 65504 become infinite, NaNs become quiet.
inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {  // NaN
    half = 0x7e00u | ((magnitude >> 13) & 0x01ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520, halfway from 65504 to 2^16
    half = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal half
    half = (magnitude - ((127 - 15) << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude >= 0x33000000u) {             // 2^-25, halfway to the smallest subnormal
    const uint32_t shift = 126 - (magnitude >> 23);  // units of 2^-24 are this many bits up the mantissa
    const uint32_t mantissa = (magnitude & 0x007fffffu) | 0x00800000u;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t middle = 1u << (shift - 1);
    half = mantissa >> shift;
    half += rest > middle || (rest == middle && (half & 1u)) ? 1 : 0;
  }
  return static_cast<uint16_t>(sign | half);
}

// bfloat16 is the upper half of a float.
inline float bfloat16_to_float(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

// Rounds to nearest, ties to even; NaNs become quiet.
inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace weft
