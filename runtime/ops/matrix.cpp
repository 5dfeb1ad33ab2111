#include "ops/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace weft {
namespace {

constexpr uint32_t kWordBytes = 16;

[[noreturn]] void refuse(const TensorView& tensor, uint64_t row, uint64_t column, float value) {
  throw Error(Code::unsupported,
              "element (" + std::to_string(row) + ", " + std::to_string(column) + ") is " + std::to_string(value) +
                  ", f16 holds finite values up to 65504",
              "tensor " + tensor.name);
}

// Where a row of a tile lies in the packed bytes.
struct TileRow {
  std::byte* tile;
  uint32_t row, blocks;
  uint32_t words;  // 16-byte ones of a row
  std::byte* word(uint32_t k) const { return tile + size_t{IN_TILE(row, k, words)} * kWordBytes; }
  std::byte* scale(uint32_t block) const {  // q8 only
    return tile + size_t{words} * TILE_ROWS * kWordBytes + size_t{IN_TILE(row, block / 2, (blocks + 1) / 2)} * 4 +
           block % 2 * 2;
  }
};

// values has TileRow::blocks * BLOCK elements, zeros behind the columns.
void pack_f16(const TileRow& to, const TensorView& tensor, uint64_t row, std::span<const float> values) {
  uint16_t halves[8];
  for (uint32_t k = 0; k < values.size() / 8; ++k) {
    for (uint32_t i = 0; i < 8; ++i) {
      halves[i] = float_to_half(values[k * 8 + i]);
      if ((halves[i] & 0x7c00) == 0x7c00) refuse(tensor, row, k * 8 + i, values[k * 8 + i]);
    }
    std::memcpy(to.word(k), halves, sizeof halves);
  }
}

void pack_q8(const TileRow& to, const TensorView& tensor, uint64_t row, std::span<const float> values) {
  int8_t bytes[BLOCK];
  for (uint32_t block = 0; block < to.blocks; ++block) {
    const float* from = &values[block * BLOCK];
    float largest = 0;
    for (uint32_t i = 0; i < BLOCK; ++i) {
      if (!std::isfinite(from[i])) refuse(tensor, row, block * BLOCK + i, from[i]);
      largest = std::max(largest, std::abs(from[i]));
    }
    const uint16_t scale = float_to_half(largest / 127);
    if ((scale & 0x7c00) == 0x7c00) refuse(tensor, row, block * BLOCK, largest);
    const float unit = half_to_float(scale);
    for (uint32_t i = 0; i < BLOCK; ++i)  // a tiny block's scale may have rounded down or to nothing
      bytes[i] = unit > 0 ? static_cast<int8_t>(std::clamp(std::nearbyint(from[i] / unit), -127.0f, 127.0f)) : 0;
    std::memcpy(to.word(block * 2), bytes, kWordBytes);
    std::memcpy(to.word(block * 2 + 1), bytes + kWordBytes, kWordBytes);
    std::memcpy(to.scale(block), &scale, sizeof scale);
  }
}

void copy_q8(const TileRow& to, const TensorView& tensor, uint64_t row) {
  const std::byte* from = tensor.bytes.data() + row * to.blocks * kQ8BlockBytes;
  for (uint32_t block = 0; block < to.blocks; ++block, from += kQ8BlockBytes) {
    uint16_t scale;
    std::memcpy(&scale, from, sizeof scale);
    if ((scale & 0x7c00) == 0x7c00) refuse(tensor, row, block * BLOCK, half_to_float(scale));
    std::memcpy(to.scale(block), &scale, sizeof scale);
    std::memcpy(to.word(block * 2), from + 2, kWordBytes);
    std::memcpy(to.word(block * 2 + 1), from + 2 + kWordBytes, kWordBytes);
  }
}

}  // namespace

const char* name(Format format) { return format == Format::q8 ? "q8" : "f16"; }

uint64_t Matrix::tile_bytes() const {
  const uint64_t row = format == Format::q8 ? blocks() * 32ull + (blocks() + 1ull) / 2 * 4 : blocks() * 64ull;
  return row * TILE_ROWS;
}

uint64_t packed_bytes(Format format, uint64_t rows, uint64_t cols) {
  return format == Format::q8 ? rows * ((cols + BLOCK - 1) / BLOCK) * kQ8BlockBytes : rows * cols * 2;
}

std::vector<Matrix::Slice> Matrix::slices(uint64_t max_bytes) const {
  const uint64_t fit = max_bytes / tile_bytes();
  if (fit == 0)
    throw Error(Code::unsupported,
                "one tile of a matrix " + std::to_string(cols) + " wide takes " + std::to_string(tile_bytes()) +
                    " bytes, a binding of this device reaches " + std::to_string(max_bytes),
                view.buffer ? view.buffer->name() : "");
  std::vector<Slice> result;
  for (uint64_t tile = 0; tile < tiles(); tile += fit) {
    const uint64_t count = std::min<uint64_t>(fit, tiles() - tile);
    const uint32_t row_base = static_cast<uint32_t>(tile * TILE_ROWS);
    result.push_back({view.part(tile * tile_bytes(), count * tile_bytes()), row_base,
                      std::min(static_cast<uint32_t>(count * TILE_ROWS), rows - row_base)});
  }
  return result;
}

void pack_tiles(const Matrix& matrix, std::span<const TensorView* const> parts, uint32_t first_tile,
                std::span<std::byte> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  std::vector<float> values(matrix.blocks() * BLOCK, 0.0f);
  uint64_t part_base = 0;
  size_t part = 0;
  for (uint64_t slot = 0; slot < out.size() / matrix.tile_bytes() * TILE_ROWS; ++slot) {
    const uint64_t row = uint64_t{first_tile} * TILE_ROWS + slot;
    while (part < parts.size() && row >= part_base + parts[part]->shape[0]) part_base += parts[part++]->shape[0];
    if (part == parts.size()) return;
    const TensorView& tensor = *parts[part];
    const TileRow to = {out.data() + slot / TILE_ROWS * matrix.tile_bytes(), static_cast<uint32_t>(slot % TILE_ROWS),
                        matrix.blocks(), matrix.blocks() * (matrix.format == Format::q8 ? 2 : 4)};
    if (matrix.format == Format::q8 && tensor.dtype == DType::q8_0) {
      copy_q8(to, tensor, row - part_base);
      continue;
    }
    to_float(tensor, (row - part_base) * matrix.cols, {values.data(), matrix.cols});
    (matrix.format == Format::q8 ? pack_q8 : pack_f16)(to, tensor, row - part_base, values);
  }
}

}  // namespace weft
