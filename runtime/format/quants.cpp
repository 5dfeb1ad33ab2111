// Compiled with -ffp-contract=off: a fused d * q + m would round once where the formats round twice.
#include "format/quants.h"

#include <cmath>
#include <cstring>

#include "base/half.h"
#include "format/quant_bits.h"

namespace weft {
namespace {

float half_at(const std::byte* at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return half_to_float(half);
}

float signed_at(const std::byte* at) { return static_cast<float>(static_cast<int8_t>(*at)); }

// Bit e of 32.
uint32_t bit(const std::byte* bytes, uint32_t e) { return byte_at(bytes + e / 8) >> e % 8 & 1; }

// 34 bytes: d, int8 q[32]. d q.
void decode_q8_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (uint32_t e = 0; e < 32; ++e) out[e] = d * signed_at(block + 2 + e);
}

// 18 bytes: d, nibbles[16]. d (q - 8).
int q4_0_value(const std::byte* block, uint32_t e) { return static_cast<int>(nibble(block + 2, e)) - 8; }
void decode_q4_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (uint32_t e = 0; e < 32; ++e) out[e] = d * static_cast<float>(q4_0_value(block, e));
}

// 20 bytes: d, m, nibbles[16]. d q + m.
void decode_q4_1(const std::byte* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  for (uint32_t e = 0; e < 32; ++e) out[e] = d * static_cast<float>(nibble(block + 4, e)) + m;
}

// 22 bytes: d, the fifth bits[4], nibbles[16]. d (q - 16).
int q5_0_value(const std::byte* block, uint32_t e) {
  return static_cast<int>(nibble(block + 6, e) | bit(block + 2, e) << 4) - 16;
}
void decode_q5_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (uint32_t e = 0; e < 32; ++e) out[e] = d * static_cast<float>(q5_0_value(block, e));
}

// 24 bytes: d, m, the fifth bits[4], nibbles[16]. d q + m.
void decode_q5_1(const std::byte* block, float* out) {
  const float d = half_at(block), m = half_at(block + 2);
  for (uint32_t e = 0; e < 32; ++e) out[e] = d * static_cast<float>(nibble(block + 8, e) | bit(block + 4, e) << 4) + m;
}

// The K types have blocks of 256 elements, in sub-blocks of 16 or 32 with small scales of their own. Their bits lie in
// runs of 32 bytes: byte l of a run holds elements l, 32 + l, 64 + l, ...

// Four bits of element e: 128 bytes, 32 for each quarter of the block.
uint32_t four_bits(const std::byte* bytes, uint32_t e) {
  return byte_at(bytes + e / 64 * 32 + e % 32) >> e % 64 / 32 * 4 & 15;
}

// 84 bytes: 16 sub-blocks' scale (low half) and minimum (high half), two bits[64], d, dmin. (d sc) q - (dmin m).
void decode_q2_k(const std::byte* block, float* out) {
  const float d = half_at(block + 80), dmin = half_at(block + 82);
  for (uint32_t e = 0; e < 256; ++e) {
    const uint32_t scales = byte_at(block + e / 16);
    const float scale = d * static_cast<float>(scales & 15), least = dmin * static_cast<float>(scales >> 4);
    out[e] = scale * static_cast<float>(two_bits(block + 16, e)) - least;
  }
}

// The 6-bit scale and minimum of sub-block 0 .. 7 of Q4_K and Q5_K, in 12 bytes: the first four scales and minima are
// the low six bits of bytes 0 .. 3 and 4 .. 7; the others have their low four bits in bytes 8 .. 11, scale below
// minimum, and their high two bits above those of the first four.
struct ScaleMin {
  float scale, min;
};
ScaleMin scale_min(const std::byte* bytes, uint32_t sub) {
  const auto at = [&](uint32_t i) { return byte_at(bytes + i); };
  if (sub < 4) return {static_cast<float>(at(sub) & 63), static_cast<float>(at(sub + 4) & 63)};
  return {static_cast<float>((at(sub + 4) & 15) | at(sub - 4) >> 6 << 4),
          static_cast<float>(at(sub + 4) >> 4 | at(sub) >> 6 << 4)};
}

// 144 bytes: d, dmin, scales[12], four bits[128]. (d sc) q - (dmin m).
void decode_q4_k(const std::byte* block, float* out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  for (uint32_t sub = 0; sub < 8; ++sub) {
    const ScaleMin small = scale_min(block + 4, sub);
    const float scale = d * small.scale, least = dmin * small.min;
    for (uint32_t e = sub * 32; e < sub * 32 + 32; ++e)
      out[e] = scale * static_cast<float>(four_bits(block + 16, e)) - least;
  }
}

// 176 bytes: d, dmin, scales[12], the fifth bits[32], four bits[128]. (d sc) q - (dmin m).
uint32_t q5_k_quant(const std::byte* block, uint32_t e) {
  return four_bits(block + 48, e) | one_bit(block + 16, e) << 4;
}
void decode_q5_k(const std::byte* block, float* out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  for (uint32_t sub = 0; sub < 8; ++sub) {
    const ScaleMin small = scale_min(block + 4, sub);
    const float scale = d * small.scale, least = dmin * small.min;
    for (uint32_t e = sub * 32; e < sub * 32 + 32; ++e)
      out[e] = scale * static_cast<float>(q5_k_quant(block, e)) - least;
  }
}

// 210 bytes: the low four bits[128], the high two bits[64], int8 scales[16], d. (d sc) (q - 32).
// The four bits lie in runs of 64 bytes, one for each half of the block.
uint32_t q6_k_quant(const std::byte* block, uint32_t e) {
  const uint32_t low = byte_at(block + e / 128 * 64 + e % 64) >> e % 128 / 64 * 4 & 15;
  return low | two_bits(block + 128, e) << 4;
}
void decode_q6_k(const std::byte* block, float* out) {
  const float d = half_at(block + 208);
  for (uint32_t e = 0; e < 256; ++e) {
    const float scale = d * signed_at(block + 192 + e / 16);
    out[e] = scale * (static_cast<float>(q6_k_quant(block, e)) - 32);
  }
}

constexpr int8_t kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // E2M1's numbers

// 17 bytes: the scale's exponent e, nibbles[16]. Twice E2M1's numbers, times 2^(e - 128).
void decode_mxfp4(const std::byte* block, float* out) {
  const PowerBlock numbers = power_block(block);
  const float scale = std::ldexp(1.0f, numbers.exponent);
  for (uint32_t e = 0; e < 32; ++e) out[e] = scale * static_cast<float>(numbers.values[e]);
}

// 18 bytes: d, nibbles[16]. d list[q].
int iq4_nl_value(const std::byte* block, uint32_t e) { return numbers_of(DType::iq4_nl).list[nibble(block + 2, e)]; }
void decode_iq4_nl(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (uint32_t e = 0; e < 32; ++e) out[e] = d * static_cast<float>(iq4_nl_value(block, e));
}

// 18 bytes: d, 128 bits. d (2 q - 1).
int q1_0_value(const std::byte* block, uint32_t e) { return static_cast<int>(2 * bit(block + 2, e)) - 1; }
void decode_q1_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (uint32_t e = 0; e < 128; ++e) out[e] = d * static_cast<float>(q1_0_value(block, e));
}

// 18 bytes: d, 64 x two bits. d (q - 1).
int q2_0_value(const std::byte* block, uint32_t e) {
  return static_cast<int>(byte_at(block + 2 + e / 4) >> e % 4 * 2 & 3) - 1;
}
void decode_q2_0(const std::byte* block, float* out) {
  const float d = half_at(block);
  for (uint32_t e = 0; e < 64; ++e) out[e] = d * static_cast<float>(q2_0_value(block, e));
}

// 36 bytes: 4 scales of 8 bits, nibbles[32], 8 for each scale. Half the scale times twice E2M1's numbers.
void decode_nvfp4(const std::byte* block, float* out) {
  for (uint32_t part = 0; part < 4; ++part) {
    const uint32_t bits = byte_at(block + part) & 127, exponent = bits >> 3;  // E4M3, whose sign is not used
    const float mantissa = static_cast<float>(bits & 7) / 8;
    const float scale =
        exponent == 0 ? std::ldexp(mantissa, -6) : std::ldexp(1 + mantissa, static_cast<int>(exponent) - 7);
    const float half = byte_at(block + part) == 0x7f ? 0 : scale * 0.5f;
    for (uint32_t e = 0; e < 16; ++e) {
      const uint32_t quant = byte_at(block + 4 + part * 8 + e % 8) >> (e < 8 ? 0 : 4) & 15;
      out[part * 16 + e] = half * static_cast<float>(kTwice[quant]);
    }
  }
}

template <DType kType>
void decode_listed(const std::byte* block, float* out) {
  const NumberList& numbers = numbers_of(kType);
  const SuperBlock from = listed_block(kType, block);
  const float d = half_to_float(from.d);
  for (uint32_t e = 0; e < 256; ++e) {
    const float scale = d * (numbers.unit * static_cast<float>(from.scales[e / numbers.shared]));
    out[e] = scale * static_cast<float>(numbers.list[from.quants[e]]);
  }
}

}  // namespace

PowerBlock power_block(const std::byte* block) {
  PowerBlock result;
  result.exponent = static_cast<int>(byte_at(block)) - 128;
  for (uint32_t e = 0; e < result.values.size(); ++e) result.values[e] = kTwice[nibble(block + 1, e)];
  return result;
}

BlockDecoder block_decoder(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::dequantised:
    case DType::u8:
    case DType::i8:
    case DType::i32:
    case DType::i64:
    case DType::f8_e4m3:
      return nullptr;
    case DType::q8_0:
      return decode_q8_0;
    case DType::q4_0:
      return decode_q4_0;
    case DType::q4_1:
      return decode_q4_1;
    case DType::q5_0:
      return decode_q5_0;
    case DType::q5_1:
      return decode_q5_1;
    case DType::q2_k:
      return decode_q2_k;
    case DType::q3_k:
      return decode_listed<DType::q3_k>;
    case DType::q4_k:
      return decode_q4_k;
    case DType::q5_k:
      return decode_q5_k;
    case DType::q6_k:
      return decode_q6_k;
    case DType::mxfp4:
      return decode_mxfp4;
    case DType::iq4_nl:
      return decode_iq4_nl;
    case DType::nvfp4:
      return decode_nvfp4;
    case DType::q1_0:
      return decode_q1_0;
    case DType::q2_0:
      return decode_q2_0;
    case DType::iq4_xs:
      return decode_listed<DType::iq4_xs>;
    case DType::iq3_xxs:
      return decode_listed<DType::iq3_xxs>;
    case DType::iq3_s:
      return decode_listed<DType::iq3_s>;
    case DType::iq2_xxs:
      return decode_listed<DType::iq2_xxs>;
    case DType::iq2_xs:
      return decode_listed<DType::iq2_xs>;
    case DType::iq2_s:
      return decode_listed<DType::iq2_s>;
    case DType::iq1_s:
      return decode_listed<DType::iq1_s>;
    case DType::iq1_m:
      return decode_listed<DType::iq1_m>;
    case DType::tq1_0:
      return decode_listed<DType::tq1_0>;
    case DType::tq2_0:
      return decode_listed<DType::tq2_0>;
  }
  return nullptr;
}

bool is_scaled_integers(DType dtype) {
  return dtype == DType::q8_0 || dtype == DType::q4_0 || dtype == DType::q5_0 || dtype == DType::iq4_nl;
}

ScaledBlock scaled_block(DType dtype, const std::byte* block) {
  ScaledBlock result;
  std::memcpy(&result.scale, block, sizeof result.scale);
  for (uint32_t e = 0; e < result.values.size(); ++e) {
    const int value = dtype == DType::q4_0     ? q4_0_value(block, e)
                      : dtype == DType::q5_0   ? q5_0_value(block, e)
                      : dtype == DType::iq4_nl ? iq4_nl_value(block, e)
                                               : std::to_integer<int8_t>(block[2 + e]);
    result.values[e] = static_cast<int8_t>(value);
  }
  return result;
}

SmallBlock small_block(DType dtype, const std::byte* blocks, uint64_t index) {
  SmallBlock result = {};
  const uint64_t parts = block_elements(dtype) / kQ8BlockElements;
  const std::byte* const block = blocks + index / parts * block_bytes(dtype);
  const auto first = static_cast<uint32_t>(index % parts * kQ8BlockElements);
  if (dtype == DType::mxfp4) {
    // 2^(e - 128), since values are twice the numbers: below 2^-126 the bits of a float without a leading one.
    const uint32_t e = byte_at(block);
    result.scale = static_cast<uint16_t>(e == 255 ? kNoPower : e > 1 ? (e - 1) << 7 : 0x20 << e);
    for (uint32_t i = 0; i < result.quants.size(); ++i)
      if (const uint8_t bits = nibble(block + 1, i); bits != 8) result.quants[i] = bits;
    return result;
  }
  std::memcpy(&result.scale, block, sizeof result.scale);
  if (dtype == DType::q1_0 || dtype == DType::q2_0) {
    for (uint32_t e = 0; e < result.quants.size(); ++e)
      result.quants[e] = static_cast<uint8_t>(
          8 + (dtype == DType::q1_0 ? q1_0_value(block, first + e) : q2_0_value(block, first + e)));
    return result;
  }
  const bool has_minimum = dtype == DType::q5_1, has_fifth = dtype == DType::q5_0 || has_minimum;
  if (has_minimum) std::memcpy(&result.minimum, block + 2, sizeof result.minimum);
  const std::byte* const fifth = block + (has_minimum ? 4 : 2);
  for (uint32_t e = 0; e < result.quants.size(); ++e)
    result.quants[e] =
        static_cast<uint8_t>(nibble(fifth + (has_fifth ? 4 : 0), e) | (has_fifth ? bit(fifth, e) << 4 : 0));
  return result;
}

bool is_nibbles(DType dtype) {
  return dtype == DType::q4_0 || dtype == DType::q4_1 || dtype == DType::q4_k || dtype == DType::q1_0 ||
         dtype == DType::q2_0;
}

NibbleBlock nibble_block(DType dtype, const std::byte* blocks, uint64_t index) {
  NibbleBlock result;
  const uint64_t parts = block_elements(dtype) / kQ8BlockElements;
  const std::byte* const block = blocks + index / parts * block_bytes(dtype);
  const float d = half_at(block);
  if (dtype == DType::q4_k) {
    const auto sub = static_cast<uint32_t>(index % parts);
    const ScaleMin small = scale_min(block + 4, sub);
    result.scale = d * small.scale;
    result.minimum = -half_at(block + 2) * small.min;
    for (uint32_t e = 0; e < result.values.size(); ++e)
      result.values[e] = static_cast<uint8_t>(four_bits(block + 16, sub * 32 + e));
    return result;
  }
  if (dtype == DType::q1_0 || dtype == DType::q2_0) {
    result.scale = d;
    result.minimum = -d;
    for (uint32_t e = 0; e < result.values.size(); ++e) {
      const auto own = static_cast<uint32_t>(index % parts * kQ8BlockElements + e);
      result.values[e] =
          static_cast<uint8_t>((dtype == DType::q1_0 ? q1_0_value(block, own) : q2_0_value(block, own)) + 1);
    }
    return result;
  }
  result.scale = d;
  result.minimum = dtype == DType::q4_0 ? -8 * d : half_at(block + 2);
  for (uint32_t e = 0; e < result.values.size(); ++e)
    result.values[e] = static_cast<uint8_t>(nibble(block + (dtype == DType::q4_0 ? 2 : 4), e));
  return result;
}

SuperBlock super_block(DType dtype, const std::byte* block) {
  if (has_list(dtype)) return listed_block(dtype, block);
  SuperBlock result = {};
  if (dtype == DType::q6_k) {
    std::memcpy(&result.d, block + 208, sizeof result.d);
    std::memcpy(result.scales.data(), block + 192, result.scales.size());
    for (uint32_t e = 0; e < result.quants.size(); ++e) result.quants[e] = static_cast<uint8_t>(q6_k_quant(block, e));
    return result;
  }
  if (dtype == DType::q2_k) {
    std::memcpy(&result.d, block + 80, sizeof result.d);
    std::memcpy(&result.dmin, block + 82, sizeof result.dmin);
    for (uint32_t s = 0; s < result.minima.size(); ++s) {
      result.scales[s] = static_cast<int8_t>(byte_at(block + s) & 15);
      result.minima[s] = static_cast<uint8_t>(byte_at(block + s) >> 4);
    }
    for (uint32_t e = 0; e < result.quants.size(); ++e)
      result.quants[e] = static_cast<uint8_t>(two_bits(block + 16, e));
    return result;
  }
  std::memcpy(&result.d, block, sizeof result.d);
  std::memcpy(&result.dmin, block + 2, sizeof result.dmin);
  for (uint32_t sub = 0; sub < 8; ++sub) {
    const ScaleMin small = scale_min(block + 4, sub);
    result.scales[sub] = static_cast<int8_t>(small.scale);
    result.minima[sub] = static_cast<uint8_t>(small.min);
  }
  for (uint32_t e = 0; e < result.quants.size(); ++e)
    result.quants[e] = static_cast<uint8_t>(dtype == DType::q5_k ? q5_k_quant(block, e) : four_bits(block + 16, e));
  return result;
}

}  // namespace weft
