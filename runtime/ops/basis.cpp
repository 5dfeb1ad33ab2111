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

// The Hadamard matrix of 32 rows, times 1 / sqrt(32): its own inverse.
void hadamard(float* v) {
  for (uint32_t step = 1; step < 32; step *= 2)
    for (uint32_t first = 0; first < 32; first += 2 * step)
      for (uint32_t i = first; i < first + step; ++i) {
        const float a = v[i], b = v[i + step];
        v[i] = a + b;
        v[i + step] = a - b;
      }
  for (uint32_t i = 0; i < 32; ++i) v[i] *= 0.17677669529663689f;
}

}  // namespace

Basis::Basis(uint32_t width, std::span<const uint32_t> order, std::span<const float> mean, uint64_t seed)
    : width_(width), cols_(std::max((width + 31) / 32, 1u) * 32), columns_(cols_, NO_COLUMN), mean_(cols_) {
  std::vector<bool> seen(width);
  for (uint32_t i = 0; i < width; ++i) {
    const uint32_t column = order.empty() ? i : order[i];
    if ((!order.empty() && order.size() != width) || column >= width || seen[column])
      throw Error(Code::internal, "the order of the columns is no permutation", "basis");
    seen[column] = true;
    columns_[i] = column;
  }
  for (uint32_t round : {0u, 1u}) {
    signs_[round].resize(cols_);
    for (uint32_t i = 0; i < cols_; ++i)
      signs_[round][i] = (random_bits(seed, round * uint64_t{1} << 32 | i) & 1) != 0 ? -1.0f : 1.0f;
  }
  if (!mean.empty()) rotate(mean, mean_);
}

void Basis::rotate(std::span<const float> from, std::span<float> to) const {
  for (uint32_t i = 0; i < cols_; ++i) to[i] = columns_[i] == NO_COLUMN ? 0 : from[columns_[i]];
  float* const rest = to.data() + LEADING;
  const uint32_t blocks = this->rest();
  for (uint32_t i = 0; i < blocks * 32; ++i) rest[i] *= signs_[0][LEADING + i];
  for (uint32_t c = 0; c < blocks; ++c) hadamard(rest + c * 32);
  for (uint32_t i = 0; i < blocks * 32; ++i) rest[i] *= signs_[1][LEADING + i];
  float block[32];
  for (uint32_t c = 0; c < blocks; ++c) {
    for (uint32_t j = 0; j < 32; ++j) block[j] = rest[ROTATED(1, blocks, c, j)];
    hadamard(block);
    for (uint32_t j = 0; j < 32; ++j) rest[ROTATED(1, blocks, c, j)] = block[j];
  }
}

std::vector<uint32_t> Basis::words() const {
  std::vector<uint32_t> words(BASIS_WORDS(cols_));
  std::copy(columns_.begin(), columns_.end(), words.begin());
  for (uint32_t round : {0u, 1u})
    for (uint32_t i = 0; i < cols_; ++i)
      if (signs_[round][i] < 0) words[BASIS_SIGNS(cols_, round) + i / 32] |= 1u << (i % 32);
  for (uint32_t i = 0; i < cols_; ++i) words[BASIS_MEAN(cols_) + i] = std::bit_cast<uint32_t>(mean_[i]);
  return words;
}

}  // namespace weft
