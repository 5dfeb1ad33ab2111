#include "reference/table_row.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace weft::reference {
namespace {

constexpr uint32_t kBlock = 32, kTileRows = 64, kGroupRows = 32;

double half(uint32_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1, fraction = bits & 0x3ff;
  const int exponent = static_cast<int>(bits >> 10 & 31);
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

std::vector<double> hadamard(const std::vector<double>& block) {
  std::vector<double> turned(kBlock);
  for (uint32_t i = 0; i < kBlock; ++i)
    for (uint32_t j = 0; j < kBlock; ++j)
      turned[i] += (std::popcount(i & j) % 2 == 0 ? 1 : -1) * block[j] / std::sqrt(32.0);
  return turned;
}

// Places of a tile's parts: each has `words` of `size` bytes a row, the parts one after the other.
struct Part {
  size_t at = 0;
  uint32_t words = 0, size = 16;

  size_t word(uint32_t row, uint32_t k) const {
    return at + ((row / kGroupRows * words + k) * kGroupRows + row % kGroupRows) * size;
  }
};
struct TileParts {
  Part header, leading, plane[5], leading_low, scales;
  size_t bytes = 0;

  TileParts(uint32_t bits, uint32_t rest) {
    const auto add = [&](Part& part, uint32_t words, uint32_t size = 16) {
      part = {bytes, words, size};
      bytes += size_t{words} * size * kTileRows;
    };
    add(header, 1);
    add(leading, 2);
    add(plane[0], (rest + 3) / 4);
    add(plane[1], (rest + 3) / 4);
    add(plane[2], (rest + 1) / 2);
    if (bits > 4) add(plane[3], rest);
    if (bits > 8) add(plane[4], 2 * rest);
    add(leading_low, 2);
    add(scales, (rest + 1) / 2, 4);
  }
};

}  // namespace

TableBasis::TableBasis(std::span<const uint32_t> words) {
  const size_t cols = words.size() * 16 / 51;  // cols + 6 cols / 32 + 2 cols words
  columns.assign(words.begin(), words.begin() + static_cast<ptrdiff_t>(cols));
  for (size_t round = 0; round < 6; ++round)
    for (size_t i = 0; i < cols; ++i)
      signs[round].push_back((words[cols + round * (cols / 32) + i / 32] >> i % 32 & 1) != 0 ? -1 : 1);
  for (size_t i = 0; i < cols; ++i) mean.push_back(std::bit_cast<float>(words[cols + cols / 32 * 6 + i]));
  for (size_t i = 0; i < cols; ++i) scales.push_back(std::bit_cast<float>(words[2 * cols + cols / 32 * 6 + i]));
}

void TableBasis::turn(std::vector<double>& x, uint32_t round, bool back) const {
  const size_t rest = x.size() / kBlock - 1;
  std::vector<size_t> order;  // the columns, 32 to a matrix
  for (size_t matrix = 0; matrix < rest; ++matrix)
    for (size_t element = 0; element < kBlock; ++element)
      order.push_back(kBlock + (round % 2 == 0
                                    ? element * rest + matrix
                                    : (matrix * kBlock + element + (round == 1 ? 16 : 0)) % (rest * kBlock)));
  for (size_t first = 0; first < order.size(); first += kBlock) {
    std::vector<double> block(kBlock);
    for (size_t i = 0; i < kBlock; ++i) block[i] = (back ? 1 : signs[round][order[first + i]]) * x[order[first + i]];
    block = hadamard(block);
    for (size_t i = 0; i < kBlock; ++i) x[order[first + i]] = (back ? signs[round][order[first + i]] : 1) * block[i];
  }
}

std::vector<double> TableBasis::rotate(std::span<const double> x, bool is_row) const {
  std::vector<double> turned;
  for (size_t i = 0; i < columns.size(); ++i)
    turned.push_back(columns[i] == kNone ? 0 : is_row ? x[columns[i]] / scales[i] : x[columns[i]] * scales[i]);
  for (uint32_t round = 0; round < 6; ++round) turn(turned, round, false);
  return turned;
}

std::vector<double> TableBasis::rotate_back(std::span<const double> turned, bool is_row) const {
  std::vector<double> plain(turned.begin(), turned.end()), x(turned.size());
  for (uint32_t round = 6; round-- > 0;) turn(plain, round, true);
  size_t width = 0;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i] == kNone) continue;
    x[columns[i]] = is_row ? plain[i] * scales[i] : plain[i] / scales[i];
    ++width;
  }
  x.resize(width);
  return x;
}

std::vector<double> TableRow::known(uint32_t stage, uint32_t bits) const {
  const uint32_t shown = 1u << stage;
  std::vector<double> known;
  for (size_t i = 0; i < integers.size(); ++i) {
    const double middle = std::floor(std::ldexp(integers[i], static_cast<int>(shown) - static_cast<int>(bits))) + 0.5;
    known.push_back(stage == 2 ? scales[i / kBlock] * middle : 2 * middle);
  }
  return known;
}

size_t table_tile_bytes(uint32_t bits, uint32_t cols) {
  return TileParts(bits, cols == 0 ? 0 : (cols + kBlock - 1) / kBlock - 1).bytes;
}

TableRow read_table_row(std::span<const std::byte> tiles, uint32_t bits, uint32_t cols, uint32_t row) {
  const uint32_t rest = (cols + kBlock - 1) / kBlock - 1, r = row % kTileRows;
  const TileParts parts(bits, rest);
  const std::byte* const tile = tiles.data() + row / kTileRows * parts.bytes;
  const auto byte_at = [&](size_t at) { return std::to_integer<uint32_t>(tile[at]); };
  const auto half_at = [&](size_t at) { return half(byte_at(at) | byte_at(at + 1) << 8); };
  const auto bits_at = [&](const Part& part, size_t word32, uint32_t bit, uint32_t count) {
    uint32_t word;
    std::memcpy(&word, tile + part.word(r, static_cast<uint32_t>(word32 / 4)) + word32 % 4 * 4, 4);
    return word >> bit & ((1u << count) - 1);
  };
  TableRow read;
  const size_t header = parts.header.word(r, 0);
  read.leading_scale = half_at(header);
  read.mean_product = half_at(header + 2);
  for (uint32_t stage = 0; stage < 3; ++stage)
    read.stages.push_back({half_at(header + 4 + 4 * stage), half_at(header + 6 + 4 * stage)});
  for (uint32_t i = 0; i < kBlock; ++i) {
    const auto high = static_cast<int8_t>(byte_at(parts.leading.word(r, i / 16) + i % 16));
    read.values.push_back(read.leading_scale * (high + byte_at(parts.leading_low.word(r, i / 16) + i % 16) / 256.0));
  }
  for (uint32_t block = 0; block < rest; ++block) {
    read.scales.push_back(half_at(parts.scales.word(r, block / 2) + block % 2 * 2));
    for (uint32_t e = 0; e < kBlock; ++e) {
      const uint32_t j = e / 4, k = e % 4;
      uint32_t u =
          bits_at(parts.plane[0], block, 8 * k + 7 - j, 1) << 1 | bits_at(parts.plane[1], block, 8 * k + 7 - j, 1);
      u = u << 2 | bits_at(parts.plane[2], 2 * block + j % 2, 8 * k + 6 - 2 * (j / 2), 2);
      if (bits > 4) u = u << 4 | bits_at(parts.plane[3], 4 * block + j % 4, 8 * k + 4 - 4 * (j / 4), 4);
      if (bits > 8) u = u << 8 | byte_at(parts.plane[4].word(r, 2 * block + e / 16) + e % 16);
      const int32_t integer = static_cast<int32_t>(u) - (u >> (bits - 1) != 0 ? 1 << bits : 0);
      read.integers.push_back(integer);
      read.values.push_back(read.scales.back() * integer / (bits == 16 ? 256 : 1));
    }
  }
  return read;
}

}  // namespace weft::reference
