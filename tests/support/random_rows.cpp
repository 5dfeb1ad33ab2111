#include "support/random_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/half.h"

namespace weft {

uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

namespace {

void append16(std::string& bytes, uint16_t value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); }

// Each block's scale is the largest magnitude / 127, rounded to half; elements are rounded with the rounded scale.
void append_q8(std::string& bytes, std::span<const float> row) {
  for (size_t begin = 0; begin < row.size(); begin += kQ8BlockElements) {
    const auto block = row.subspan(begin, kQ8BlockElements);
    float largest = 0;
    for (const float value : block) largest = std::max(largest, std::fabs(value));
    const uint16_t scale = float_to_half(largest / 127.0f);
    const float inverse = half_to_float(scale) > 0 ? 1.0f / half_to_float(scale) : 0.0f;
    append16(bytes, scale);
    for (const float value : block) {
      const float rounded = std::nearbyint(value * inverse);
      bytes += static_cast<char>(static_cast<int8_t>(std::clamp(rounded, -127.0f, 127.0f)));
    }
  }
}

// Where a block's f16 scales are, and what they are for numbers of deviation 1 if all other bits are random: the second
// is what takes the numbers' mean to zero.
struct RandomScales {
  size_t at[2];
  float value[2];
};

RandomScales random_scales(DType type) {
  switch (type) {
    case DType::q4_0:
      return {{0, 0}, {1 / 4.6f, 1 / 4.6f}};
    case DType::q4_1:
      return {{0, 2}, {1 / 4.6f, -7.5f / 4.6f}};
    case DType::q5_0:
      return {{0, 0}, {1 / 9.2f, 1 / 9.2f}};
    case DType::q5_1:
      return {{0, 2}, {1 / 9.2f, -15.5f / 9.2f}};
    case DType::q2_k:
      return {{80, 82}, {1 / 14.0f, 1.5f / 14.0f}};
    case DType::q3_k:
      return {{108, 108}, {1 / 42.0f, 1 / 42.0f}};
    case DType::q4_k:
      return {{0, 2}, {1 / 240.0f, 7.5f / 240.0f}};
    case DType::q5_k:
      return {{0, 2}, {1 / 480.0f, 15.5f / 480.0f}};
    case DType::q6_k:
      return {{208, 208}, {1 / 1370.0f, 1 / 1370.0f}};
    default:
      throw std::invalid_argument(std::string("cannot write ") + name(type));
  }
}

// A block of MXFP4 of random numbers with this deviation, which few powers of two give: of two some blocks have the
// one, some the other, as `choice` says.
std::string random_mxfp4(float deviation, uint64_t choice, std::string block) {
  constexpr float kOfNumbers = 2.926f;  // E2M1's deviation, if all are as frequent
  const float scale = deviation / kOfNumbers, lower = std::exp2(std::floor(std::log2(scale)));
  const float share = (scale * scale / (lower * lower) - 1) / 3;  // of the upper
  const bool upper = static_cast<float>(choice % 1000) < share * 1000;
  block[0] = static_cast<char>(127 + std::ilogb(lower) + upper);
  return block;
}

// Blocks of the other types: not the row rounded, but random bits of its own, with scales that give its deviation.
void append_random_blocks(std::string& bytes, DType type, std::span<const float> row) {
  const RandomScales scales = type == DType::mxfp4 ? RandomScales() : random_scales(type);
  const float deviation = 1.0f / std::sqrt(static_cast<float>(row.size()));
  for (size_t begin = 0; begin < row.size(); begin += block_elements(type)) {
    std::string block(block_bytes(type), '\0');
    for (size_t i = 0; i < block.size(); ++i)
      block[i] = static_cast<char>(mix_bits(std::bit_cast<uint32_t>(row[begin + i % block_elements(type)]) + i));
    if (type == DType::mxfp4) {
      bytes += random_mxfp4(deviation, mix_bits(std::bit_cast<uint32_t>(row[begin])), block);
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      const uint16_t half = float_to_half(scales.value[i] * deviation);
      std::memcpy(&block[scales.at[i]], &half, sizeof half);
    }
    bytes += block;
  }
}

}  // namespace

void append_row(std::string& bytes, DType type, std::span<const float> row) {
  switch (type) {
    case DType::f32:
      bytes.append(reinterpret_cast<const char*>(row.data()), row.size_bytes());
      break;
    case DType::f16:
      for (const float value : row) append16(bytes, float_to_half(value));
      break;
    case DType::bf16:
      for (const float value : row) append16(bytes, float_to_bfloat16(value));
      break;
    case DType::q8_0:
      append_q8(bytes, row);
      break;
    default:
      append_random_blocks(bytes, type, row);
      break;
  }
}

}  // namespace weft
