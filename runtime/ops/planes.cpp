#include "ops/planes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/half.h"
#include "ops/matrix.h"

namespace weft {
namespace {

constexpr uint32_t kWordBytes = 16;
constexpr uint16_t kInfinity = 0x7c00;

// The least half that is not below a value of 0 or more.
uint16_t half_above(double value) {
  if (value > 65504) return kInfinity;
  uint16_t half = float_to_half(static_cast<float>(value));
  while (half_to_float(half) < value) ++half;
  return half;
}
// What is left of a norm as it is stored, in 255ths, never less.
uint32_t part_above(double left, uint16_t norm) {
  if (norm == kInfinity) return 255;
  return norm == 0 ? 0 : static_cast<uint32_t>(std::min(std::floor(left / half_to_float(norm) * 255) + 1, 255.0));
}

// Four bytes behind one another, the first lowest.
uint32_t load(const int8_t* from) {
  uint32_t word;
  std::memcpy(&word, from, 4);
  return word;
}

// A row's halves, `words` 32-bit words of them.
struct Halves {
  std::byte* first;
  uint32_t row, words;
  void set(uint32_t index, uint16_t half) const {
    std::memcpy(first + size_t{IN_TILE(row, index / 2, words)} * 4 + index % 2 * 2, &half, 2);
  }
};

double square(double value) { return value * value; }

// A row in the two planes of 2 bits that tables of q8 and q4 begin with: eight bytes of each for a block.
struct TwoBitPlanes {
  std::byte* tile;
  uint32_t row, blocks;
  // Half a block: 16 elements.
  void store(uint32_t plane, uint32_t block, uint32_t half, uint32_t bits) const {
    std::byte* const first = tile + size_t{plane} * 8 * blocks * TILE_ROWS;
    const uint32_t pairs = blocks / 2;
    std::byte* const eight = block / 2 < pairs
                                 ? first + size_t{IN_TILE(row, block / 2, pairs)} * kWordBytes + block % 2 * 8
                                 : first + size_t{pairs} * TILE_ROWS * kWordBytes + size_t{row} * 8;
    std::memcpy(eight + half * 4, &bits, 4);
  }
};

}  // namespace

uint32_t q8_plane_row_bytes(uint32_t blocks) { return blocks * BLOCK + Q8_HALF_WORDS(blocks) * 4; }
uint32_t q4_plane_row_bytes(uint32_t blocks) { return blocks * BLOCK / 2 + Q4_HALF_WORDS(blocks) * 4; }
uint32_t f16_plane_row_bytes(uint32_t blocks) { return blocks * BLOCK * 2 + F16_HALF_WORDS * 4; }

void store_q8_planes(std::byte* tile, uint32_t row, std::span<const int8_t> values, std::span<const uint16_t> scales) {
  const uint32_t blocks = static_cast<uint32_t>(scales.size());
  const TwoBitPlanes planes = {tile, row, blocks};
  std::byte* const low = tile + size_t{16} * blocks * TILE_ROWS;
  double open[2] = {}, left[2] = {};  // squared residuals of the halves of the columns: after plane 0; with plane 1
  for (uint32_t block = 0; block < blocks; ++block) {
    const int8_t* const from = &values[size_t{block} * BLOCK];
    uint32_t lows[4] = {};
    for (uint32_t word : {0u, 1u}) {
      uint32_t a = 0, b = 0;
      for (uint32_t j = 0; j < 4; ++j) {  // four elements at once, a byte each; 128 is added to each
        const uint32_t quad = load(from + word * 16 + j * 4) ^ 0x80808080u;
        a |= (quad >> 6 & 0x03030303u) << (2 * j);
        b |= (quad >> 4 & 0x03030303u) << (2 * j);
        lows[word * 2 + j / 2] |= (quad & 0x0f0f0f0fu) << (4 * (j % 2));
      }
      planes.store(0, block, word, a);
      planes.store(1, block, word, b);
    }
    std::memcpy(low + size_t{IN_TILE(row, block, blocks)} * kWordBytes, lows, sizeof lows);
    int32_t twice_open = 0, twice_left = 0;  // squares of twice what is left
    for (uint32_t e = 0; e < BLOCK; ++e) {
      const int32_t open_here = 2 * (from[e] & 63) - 63, left_here = 2 * (from[e] & 15) - 15;
      twice_open += open_here * open_here;
      twice_left += left_here * left_here;
    }
    const uint32_t half = block < HALF_BLOCKS(blocks) ? 0 : 1;
    open[half] += square(half_to_float(scales[block])) * twice_open / 4;
    left[half] += square(half_to_float(scales[block])) * twice_left / 4;
  }
  const Halves halves = {tile + size_t{BLOCK} * blocks * TILE_ROWS, row, Q8_HALF_WORDS(blocks)};
  for (uint32_t block = 0; block < blocks; ++block) halves.set(block, scales[block]);
  uint32_t parts = 0;
  for (uint32_t i : {0u, 1u}) {
    // Plane 1 can leave more than plane 0 does: bytes near the middle of a quarter are near plane 0's guess.
    const uint16_t norm = half_above(std::sqrt(std::max(open[i], left[i])));
    halves.set(Q8_NORMS_AT(blocks) + i, norm);
    parts |= part_above(std::sqrt(left[i]), norm) << (8 * i);
  }
  halves.set(Q8_NORMS_AT(blocks) + 2, static_cast<uint16_t>(parts));
}

void store_q4_planes(std::byte* tile, uint32_t row, std::span<const int8_t> values, std::span<const uint16_t> scales,
                     std::span<const uint16_t> minima) {
  const uint32_t blocks = static_cast<uint32_t>(scales.size()), words = Q4_HALF_WORDS(blocks);
  const TwoBitPlanes planes = {tile, row, blocks};
  const Halves halves = {tile + size_t{BLOCK / 2} * blocks * TILE_ROWS, row, words};
  double open[2] = {};  // squared residuals of the halves of the columns after plane 0
  for (uint32_t block = 0; block < blocks; ++block) {
    const int8_t* const from = &values[size_t{block} * BLOCK];
    for (uint32_t word : {0u, 1u}) {
      uint32_t a = 0, b = 0;
      for (uint32_t j = 0; j < 4; ++j) {
        const uint32_t quad = load(from + word * 16 + j * 4);
        a |= (quad >> 2 & 0x03030303u) << (2 * j);
        b |= (quad & 0x03030303u) << (2 * j);
      }
      planes.store(0, block, word, a);
      planes.store(1, block, word, b);
    }
    int32_t twice = 0;  // squares of twice what is left
    for (uint32_t e = 0; e < BLOCK; ++e) twice += (2 * (from[e] & 3) - 3) * (2 * (from[e] & 3) - 3);
    open[block < HALF_BLOCKS(blocks) ? 0 : 1] += square(half_to_float(scales[block])) * twice / 4;
    halves.set(2 * block, scales[block]);
    halves.set(2 * block + 1, minima[block]);
  }
  for (uint32_t i : {0u, 1u}) halves.set(2 * blocks + i, half_above(std::sqrt(open[i])));
}

void store_f16_planes(std::byte* tile, uint32_t row, std::span<const uint16_t> values) {
  const uint32_t blocks = static_cast<uint32_t>(values.size()) / BLOCK;
  std::byte* const low = tile + size_t{BLOCK} * blocks * TILE_ROWS;
  constexpr uint32_t kWord = 16;                    // elements
  double residuals[kWord] = {}, norms[kWord] = {};  // of every sixteenth element, so that loops vectorise
  for (uint32_t first = 0; first < values.size(); first += kWord) {
    const uint16_t* const from = &values[first];
    uint8_t bytes[2][kWord];
    for (uint32_t e = 0; e < kWord; e += 4)
      for (uint32_t i = 0; i < 4; ++i) {
        static constexpr uint32_t kElement[4] = {2, 0, 3, 1};  // of bytes 0 .. 3 in a 32-bit word
        bytes[0][e + i] = static_cast<uint8_t>(from[e + kElement[i]] >> 8);
        bytes[1][e + i] = static_cast<uint8_t>(from[e + kElement[i]] & 0xff);
      }
    const size_t at = size_t{IN_TILE(row, first / kWord, blocks * 2)} * kWordBytes;
    std::memcpy(tile + at, bytes[0], kWord);
    std::memcpy(low + at, bytes[1], kWord);
    // The estimate takes the middle of what the high byte leaves open. Devices may read subnormal halves as zero, so
    // the bound holds for either reading of both.
    for (uint32_t e = 0; e < kWord; ++e) {
      const float value = half_to_float(from[e]);
      const float middle = half_to_float(static_cast<uint16_t>((from[e] & 0xff00) | 0x80));
      const float open = std::abs(value - middle), either = std::max(std::abs(value), std::abs(middle));
      residuals[e] += square((from[e] & 0x7c00) == 0 ? std::max(open, either) : open);
      norms[e] += square(value);
    }
  }
  const double residual = std::accumulate(residuals, residuals + kWord, 0.0);
  const double norm = std::accumulate(norms, norms + kWord, 0.0);
  const Halves halves = {low + size_t{BLOCK} * blocks * TILE_ROWS, row, F16_HALF_WORDS};
  halves.set(0, half_above(std::sqrt(residual)));
  halves.set(1, half_above(std::sqrt(norm)));
}

PlaneBytes plane_bytes(Format format, uint32_t cols) {
  const uint32_t blocks = (cols + BLOCK - 1) / BLOCK, half = HALF_BLOCKS(blocks);
  if (format == Format::f16) return {{blocks * 32 + 4}, 0, 0, blocks * 64};
  if (format == Format::q4) return {{blocks * 12 + 4}, 0, 0, blocks * 20};
  const auto scales = [](uint32_t count) { return (count + 1) / 2 * 4; };  // read by the word
  // Norms are a word and a half: of an odd number of blocks the first shares the last scale's word.
  const uint32_t norms = blocks % 2 == 0 ? 8 : 4, open = 4;
  const uint32_t sweep = blocks * 8 + scales(blocks);
  return {{sweep + open, sweep + half * 8 + norms, sweep + blocks * 8 + norms},
          half * 8 + scales(half) + 8,
          (blocks - half) * 8 + scales(blocks - half),
          blocks * 32 + scales(blocks)};
}

}  // namespace weft
