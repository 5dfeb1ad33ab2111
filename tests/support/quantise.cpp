#include "support/quantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "format/q4_block.h"

namespace weft::test {
namespace {

constexpr size_t kBlock = kQ8BlockElements;

template <typename T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

void append_nibbles(std::vector<std::byte>& bytes, const uint8_t* quants) {
  for (size_t i = 0; i < kBlock / 2; ++i)
    bytes.push_back(static_cast<std::byte>((quants[i] & 15) | (quants[i + kBlock / 2] & 15) << 4));
}

// Returns the whole part; 0 for NaN and numbers beyond all levels, which only the block's scale shows then.
int whole(float value) { return std::abs(value) < 1e6f ? static_cast<int>(value) : 0; }

void append_q8_0(std::vector<std::byte>& bytes, std::span<const float> block) {
  float largest = 0;
  for (const float value : block) largest = std::max(largest, std::abs(value));
  const float d = largest / 127, inverse = d > 0 ? 1 / d : 0;
  append(bytes, float_to_half(d));
  for (const float value : block)
    bytes.push_back(static_cast<std::byte>(static_cast<int8_t>(whole(std::round(value * inverse)))));
}

// half: 8 for Q4_0, 16 for Q5_0. Levels -half to half - 1; the value of largest magnitude becomes -half.
void append_centred(std::vector<std::byte>& bytes, std::span<const float> block, int half) {
  const float most = *std::ranges::max_element(block, {}, [](float value) { return std::abs(value); });
  const float d = most / static_cast<float>(-half), inverse = d != 0 ? 1 / d : 0;
  append(bytes, float_to_half(d));
  uint8_t quants[kBlock];
  uint32_t fifth_bits = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const int level = whole(block[i] * inverse + static_cast<float>(half) + 0.5f);
    quants[i] = static_cast<uint8_t>(std::min(2 * half - 1, level));
    fifth_bits |= static_cast<uint32_t>(quants[i] >> 4) << i;
  }
  if (half == 16) append(bytes, fifth_bits);
  append_nibbles(bytes, quants);
}

void append_q4_1(std::vector<std::byte>& bytes, std::span<const float> block) {
  const Q4Block fitted = fit_q4(block);
  append(bytes, fitted.scale);
  append(bytes, fitted.minimum);
  append_nibbles(bytes, fitted.quants.data());
}

}  // namespace

std::vector<std::byte> quantise(std::span<const float> values, DType type) {
  std::vector<std::byte> bytes;
  if (!is_quantised(type)) {
    for (const float value : values)
      if (type == DType::f32)
        append(bytes, value);
      else
        append(bytes, type == DType::f16 ? float_to_half(value) : float_to_bfloat16(value));
    return bytes;
  }
  for (size_t at = 0; at < values.size(); at += kBlock) {
    const std::span<const float> block = values.subspan(at, kBlock);
    switch (type) {
      case DType::q8_0:
        append_q8_0(bytes, block);
        break;
      case DType::q4_0:
        append_centred(bytes, block, 8);
        break;
      case DType::q5_0:
        append_centred(bytes, block, 16);
        break;
      case DType::q4_1:
        append_q4_1(bytes, block);
        break;
      default:
        throw std::invalid_argument(std::string("cannot quantise to ") + name(type));
    }
  }
  return bytes;
}

}  // namespace weft::test
