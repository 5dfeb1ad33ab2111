#include "ops/basis.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

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

using Four = float __attribute__((vector_size(16)));  // side by side in a register

// A Hadamard matrix of `count` rows over x, all in registers. T: float, or four columns at once.
template <uint32_t count, class T>
void butterflies(T* x) {
#pragma GCC unroll 8
  for (uint32_t step = 1; step < count; step *= 2)
#pragma GCC unroll 8
    for (uint32_t i = 0; i < count; ++i) {
      if ((i & step) != 0) continue;
      const T a = x[i], b = x[i + step];
      x[i] = a + b;
      x[i + step] = a - b;
    }
}

template <uint32_t count, class T>
void butterflies(float* v, size_t stride) {
  T x[count];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < count; ++i) std::memcpy(&x[i], v + i * stride, sizeof(T));
  butterflies<count>(x);
#pragma GCC unroll 8
  for (uint32_t i = 0; i < count; ++i) std::memcpy(v + i * stride, &x[i], sizeof(T));
}

// A Hadamard matrix of 32 rows over v[0], v[stride], v[2 stride], ...: as one of 8 and one of 4.
template <class T>
void hadamard_column(float* v, size_t stride) {
  for (size_t group = 0; group < 4; ++group) butterflies<8, T>(v + group * 8 * stride, stride);
  for (size_t first = 0; first < 8; ++first) butterflies<4, T>(v + first * stride, 8 * stride);
}

// The same for `count` neighbours at once.
void hadamard_across(float* v, uint32_t count) {
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) hadamard_column<Four>(v + i, count);
  for (; i < count; ++i) hadamard_column<float>(v + i, count);
}

// Over 32 neighbours: those of four within two registers, then eight registers.
void hadamard(float* v) {
  Four x[8];
  std::memcpy(x, v, sizeof x);
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 8; i += 2) {
    Four even = __builtin_shufflevector(x[i], x[i + 1], 0, 2, 4, 6);
    Four odd = __builtin_shufflevector(x[i], x[i + 1], 1, 3, 5, 7);
    const Four sum = even + odd, difference = even - odd;
    even = __builtin_shufflevector(sum, difference, 0, 2, 4, 6);
    odd = __builtin_shufflevector(sum, difference, 1, 3, 5, 7);
    x[i] = __builtin_shufflevector(even + odd, even - odd, 0, 2, 4, 6);
    x[i + 1] = __builtin_shufflevector(even + odd, even - odd, 1, 3, 5, 7);
  }
  butterflies<8>(x);
  std::memcpy(v, x, sizeof x);
}

constexpr float kScale = 0.17677669529663689f;  // 1 / sqrt(32) makes the matrix its own inverse

}  // namespace

Basis::Basis(uint32_t width, std::span<const uint32_t> order, std::span<const float> mean,
             std::span<const float> scales, uint64_t seed)
    : width_(width),
      cols_(std::max((width + 31) / 32, 1u) * 32),
      columns_(cols_, NO_COLUMN),
      sources_(cols_),
      scales_(cols_),
      inverse_(cols_),
      mean_(cols_) {
  std::vector<bool> seen(width);
  for (uint32_t i = 0; i < width; ++i) {
    const uint32_t column = order.empty() ? i : order[i];
    if ((!order.empty() && order.size() != width) || column >= width || seen[column])
      throw Error(Code::internal, "the order of the columns is no permutation", "basis");
    seen[column] = true;
    columns_[i] = sources_[i] = column;
    scales_[i] = inverse_[i] = 1;
    if (scales.empty()) continue;
    if (scales.size() != width || !(scales[column] > 0) || !std::isfinite(scales[column]))
      throw Error(Code::internal, "a column's scale is not above 0", "basis");
    scales_[i] = scales[column];
    inverse_[i] = 1 / scales[column];
  }
  for (uint32_t round = 0; round < ROTATIONS; ++round) {
    signs_[round].resize(cols_);
    for (uint32_t i = 0; i < cols_; ++i)
      signs_[round][i] = (random_bits(seed, round * uint64_t{1} << 32 | i) & 1) != 0 ? -kScale : kScale;
  }
  if (!mean.empty()) rotate_state(mean, mean_);
}

void Basis::rotate_row(std::span<const float> from, std::span<float> to) const { rotate(from, scales_, to); }

void Basis::rotate_state(std::span<const float> from, std::span<float> to) const { rotate(from, inverse_, to); }

void Basis::rotate(std::span<const float> from, std::span<const float> factors, std::span<float> to) const {
  for (uint32_t i = 0; i < cols_; ++i) to[i] = from[sources_[i]] * factors[i];
  const uint32_t blocks = rest(), count = blocks * 32;
  float* const rest = to.data() + LEADING;
  for (uint32_t round = 0; round < ROTATIONS; ++round) {
    const float* const signs = signs_[round].data() + LEADING;
    for (uint32_t i = 0; i < count; ++i) rest[i] *= signs[i];
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
