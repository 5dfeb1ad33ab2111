#include "ops/basis.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "shaders/abi.h"

namespace weft {
namespace {

// SplitMix64 (Steele, Lea and Flood 2014): 64 random bits of a seed and a place.
uint64_t random_bits(uint64_t seed, uint64_t place) {
  uint64_t z = seed + (place + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void butterflies(float* low, float* high, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const float a = low[i], b = high[i];
    low[i] = a + b;
    high[i] = a - b;
  }
}

// Hadamard matrices of 32 rows over v[0], v[count], v[2 count], ..., for `count` neighbours at once.
void hadamard_across(float* v, uint32_t count) {
  for (uint32_t step = 1; step < 32; step *= 2)
    for (uint32_t first = 0; first < 32; first += 2 * step)
      butterflies(v + size_t{first} * count, v + size_t{first + step} * count, step * count);
}

// The same over 32 neighbours.
void hadamard(float* v) {
  for (uint32_t i = 0; i < 32; i += 4) {
    const float a = v[i] + v[i + 1], b = v[i] - v[i + 1], c = v[i + 2] + v[i + 3], d = v[i + 2] - v[i + 3];
    v[i] = a + c;
    v[i + 1] = b + d;
    v[i + 2] = a - c;
    v[i + 3] = b - d;
  }
  for (uint32_t step = 4; step < 32; step *= 2)
    for (uint32_t first = 0; first < 32; first += 2 * step) butterflies(v + first, v + first + step, step);
}
constexpr float kScale = 0.17677669529663689f;  // 1 / sqrt(32) makes the matrix its own inverse

}  // namespace

Basis::Basis(uint32_t width, std::span<const uint32_t> order, std::span<const float> mean,
             std::span<const float> scales, uint64_t seed)
    : width_(width),
      cols_(std::max((width + 31) / 32, 1u) * 32),
      columns_(cols_, NO_COLUMN),
      scales_(cols_, 1),
      inverse_(cols_, 1),
      mean_(cols_) {
  std::vector<bool> seen(width);
  for (uint32_t i = 0; i < width; ++i) {
    const uint32_t column = order.empty() ? i : order[i];
    if ((!order.empty() && order.size() != width) || column >= width || seen[column])
      throw Error(Code::internal, "the order of the columns is no permutation", "basis");
    seen[column] = true;
    columns_[i] = column;
    if (scales.empty()) continue;
    if (scales.size() != width || !(scales[column] > 0) || !std::isfinite(scales[column]))
      throw Error(Code::internal, "a column's scale is not above 0", "basis");
    scales_[i] = scales[column];
    inverse_[i] = 1 / scales[column];
  }
  for (uint32_t round = 0; round < ROTATIONS; ++round) {
    signs_[round].resize(cols_);
    for (uint32_t i = 0; i < cols_; ++i)
      signs_[round][i] = (random_bits(seed, round * uint64_t{1} << 32 | i) & 1) != 0 ? -1.0f : 1.0f;
  }
  if (!mean.empty()) rotate_state(mean, mean_);
}

void Basis::rotate_row(std::span<const float> from, std::span<float> to) const { rotate(from, scales_, to); }

void Basis::rotate_state(std::span<const float> from, std::span<float> to) const { rotate(from, inverse_, to); }

void Basis::rotate(std::span<const float> from, std::span<const float> factors, std::span<float> to) const {
  for (uint32_t i = 0; i < cols_; ++i) to[i] = columns_[i] == NO_COLUMN ? 0 : from[columns_[i]] * factors[i];
  const uint32_t blocks = rest(), count = blocks * 32;
  float* const rest = to.data() + LEADING;
  for (uint32_t round = 0; round < ROTATIONS; ++round) {
    const float* const signs = signs_[round].data() + LEADING;
    for (uint32_t i = 0; i < count; ++i) rest[i] *= signs[i] * kScale;
    if (round % 2 == 0) {
      hadamard_across(rest, blocks);
      continue;
    }
    const uint32_t first = round == 1 ? 16 : 0;
    for (uint32_t c = 0; c + (first > 0 ? 1 : 0) < blocks; ++c) hadamard(rest + first + size_t{c} * 32);
    if (first == 0 || blocks == 0) continue;
    float around[32];  // the end and the beginning
    std::copy_n(rest + count - 16, 16, around);
    std::copy_n(rest, 16, around + 16);
    hadamard(around);
    std::copy_n(around, 16, rest + count - 16);
    std::copy_n(around + 16, 16, rest);
  }
}

std::vector<uint32_t> Basis::words() const {
  std::vector<uint32_t> words(BASIS_WORDS(cols_));
  std::copy(columns_.begin(), columns_.end(), words.begin());
  for (uint32_t round = 0; round < ROTATIONS; ++round)
    for (uint32_t i = 0; i < cols_; ++i)
      if (signs_[round][i] < 0) words[BASIS_SIGNS(cols_, round) + i / 32] |= 1u << (i % 32);
  for (uint32_t i = 0; i < cols_; ++i) {
    words[BASIS_MEAN(cols_) + i] = std::bit_cast<uint32_t>(mean_[i]);
    words[BASIS_SCALES(cols_) + i] = std::bit_cast<uint32_t>(inverse_[i]);
  }
  return words;
}

}  // namespace weft
