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

RandomScales one_scale(size_t at, float deviation) { return {{at, at}, {1 / deviation, 1 / deviation}}; }

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
      return one_scale(108, 43);
    case DType::q4_k:
      return {{0, 2}, {1 / 240.0f, 7.5f / 240.0f}};
    case DType::q5_k:
      return {{0, 2}, {1 / 480.0f, 15.5f / 480.0f}};
    case DType::q6_k:
      return one_scale(208, 1370);
    case DType::q1_0:
      return one_scale(0, 1);
    case DType::q2_0:
      return one_scale(0, 0.707f);
    case DType::iq4_nl:
      return one_scale(0, 67);
    case DType::iq4_xs:
      return one_scale(0, 1250);
    case DType::iq3_xxs:
      return one_scale(0, 142);
    case DType::iq3_s:
      return one_scale(0, 139);
    case DType::iq2_xxs:
      return one_scale(0, 54);
    case DType::iq2_xs:
    case DType::iq2_s:
      return one_scale(0, 56);
    case DType::iq1_s:
      return one_scale(0, 7.2f);
    case DType::tq1_0:
      return one_scale(52, 0.817f);
    case DType::tq2_0:
      return one_scale(64, 0.707f);
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

// Parts of blocks that are no random bits, of types without an f16 in one place. False: not such a type.
bool set_odd_scale(std::string& block, DType type, float deviation, uint64_t choice) {
  if (type == DType::mxfp4) {
    block = random_mxfp4(deviation, choice, block);
  } else if (type == DType::iq1_m) {  // the highest four bits of four words
    const uint16_t half = float_to_half(deviation / 7.2f);
    for (size_t k = 0; k < 4; ++k)
      block[49 + 2 * k] = static_cast<char>((block[49 + 2 * k] & 15) | (half >> 4 * k & 15) << 4);
  } else if (type == DType::nvfp4) {  // E4M3 in four bytes
    const float scale = deviation / 2.93f;
    const int exponent = std::max(std::ilogb(scale), -6);
    const float eighths = std::nearbyint(std::ldexp(scale, 3 - exponent));  // 8 more: of a normal number
    std::fill_n(block.begin(), 4, static_cast<char>((exponent + 6) * 8 + static_cast<int>(eighths)));
  } else {
    return false;
  }
  return true;
}

// Blocks of the other types: not the row rounded, but random bits of its own, with scales that give its deviation.
void append_random_blocks(std::string& bytes, DType type, std::span<const float> row) {
  const float deviation = 1.0f / std::sqrt(static_cast<float>(row.size()));
  for (size_t begin = 0; begin < row.size(); begin += block_elements(type)) {
    std::string block(block_bytes(type), '\0');
    for (size_t i = 0; i < block.size(); ++i)
      block[i] = static_cast<char>(mix_bits(std::bit_cast<uint32_t>(row[begin + i % block_elements(type)]) + i));
    if (set_odd_scale(block, type, deviation, mix_bits(std::bit_cast<uint32_t>(row[begin])))) {
      bytes += block;
      continue;
    }
    if (type == DType::tq2_0 || type == DType::q2_0)  // 2 is not in ternary files, and would move the mean
      for (char& byte : block) byte = static_cast<char>(byte & ~((byte & 0x55) << 1));
    const RandomScales scales = random_scales(type);
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
