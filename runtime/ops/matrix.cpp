#include "ops/matrix.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "ops/planes.h"

namespace weft {
namespace {

constexpr uint32_t kWordBytes = 16;

// Word k of a row, of `words` a row.
std::byte* word_of(std::byte* tile, uint32_t row, uint32_t k, uint32_t words) {
  return tile + size_t{IN_TILE(row, k, words)} * kWordBytes;
}

void store(const Matrix& matrix, std::byte* tile, uint32_t row, const PackedRow& from) {
  const uint32_t blocks = matrix.blocks();
  if (matrix.layout == Layout::planes) {
    if (matrix.format == Format::q8) return store_q8_planes(tile, row, from.bytes, from.halves);
    return store_f16_planes(tile, row, from.halves);
  }
  const bool q8 = matrix.format == Format::q8;
  const uint32_t words = blocks * (q8 ? 2 : 4);
  const void* const values = q8 ? static_cast<const void*>(from.bytes.data()) : from.halves.data();
  for (uint32_t k = 0; k < words; ++k)
    std::memcpy(word_of(tile, row, k, words), static_cast<const std::byte*>(values) + k * kWordBytes, kWordBytes);
  if (!q8) return;
  std::byte* const scales = tile + size_t{words} * TILE_ROWS * kWordBytes;
  for (uint32_t block = 0; block < blocks; ++block)
    std::memcpy(scales + size_t{IN_TILE(row, block / 2, (blocks + 1) / 2)} * 4 + block % 2 * 2, &from.halves[block], 2);
}

}  // namespace

const char* name(Format format) { return format == Format::q8 ? "q8" : "f16"; }

uint64_t Matrix::tile_bytes() const {
  uint64_t row = format == Format::q8 ? blocks() * 32ull + (blocks() + 1ull) / 2 * 4 : blocks() * 64ull;
  if (layout == Layout::planes)
    row = format == Format::q8 ? q8_plane_row_bytes(blocks()) : f16_plane_row_bytes(blocks());
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
                std::span<std::byte> out, std::span<Rounding> roundings) {
  std::fill(out.begin(), out.end(), std::byte{0});
  RowPacker packer(matrix.format == Format::q8 ? DType::q8_0 : DType::f16, matrix.cols);
  Rounding unwanted;
  uint64_t part_base = 0;
  size_t part = 0;
  for (uint64_t slot = 0; slot < out.size() / matrix.tile_bytes() * TILE_ROWS; ++slot) {
    const uint64_t row = uint64_t{first_tile} * TILE_ROWS + slot;
    while (part < parts.size() && row >= part_base + parts[part]->shape[0]) part_base += parts[part++]->shape[0];
    if (part == parts.size()) return;
    std::byte* const tile = out.data() + slot / TILE_ROWS * matrix.tile_bytes();
    const PackedRow& packed =
        packer.pack(*parts[part], row - part_base, roundings.empty() ? unwanted : roundings[part]);
    store(matrix, tile, static_cast<uint32_t>(slot % TILE_ROWS), packed);
  }
}

}  // namespace weft
