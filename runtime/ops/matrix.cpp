#include "ops/matrix.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "ops/table_row.h"

namespace weft {
namespace {

constexpr uint32_t kWordBytes = 16;

// Word k of a row, of `words` a row.
std::byte* word_of(std::byte* tile, uint32_t row, uint32_t k, uint32_t words) {
  return tile + size_t{IN_TILE(row, k, words)} * kWordBytes;
}

// Bytes of a row, without the filling of its tile.
uint64_t row_bytes(Format format, Layout layout, uint32_t blocks) {
  if (layout == Layout::planes) return table_row_bytes(format, blocks - 1);
  if (format == Format::q8) return blocks * 32ull + (blocks + 1ull) / 2 * 4;
  return blocks * (format == Format::q4 ? 20ull : 64ull);
}

// A row's words one after the other.
void store_words(std::byte* tile, uint32_t row, const void* values, uint32_t words) {
  for (uint32_t k = 0; k < words; ++k)
    std::memcpy(word_of(tile, row, k, words), static_cast<const std::byte*>(values) + k * kWordBytes, kWordBytes);
}

void store_q4(std::byte* tile, uint32_t row, const PackedRow& from, uint32_t blocks) {
  std::byte* const scales = tile + size_t{blocks} * TILE_ROWS * kWordBytes;
  for (uint32_t block = 0; block < blocks; ++block) {
    uint32_t words[4] = {};
    for (uint32_t e = 0; e < BLOCK; ++e)
      words[e / 8] |= static_cast<uint32_t>(from.bytes[block * BLOCK + e]) << (e % 8 * 4);
    std::memcpy(word_of(tile, row, block, blocks), words, kWordBytes);
    const uint16_t halves[2] = {from.halves[block], from.minima[block]};
    std::memcpy(scales + size_t{IN_TILE(row, block, blocks)} * 4, halves, 4);
  }
}

void store(const Matrix& matrix, std::byte* tile, uint32_t row, const PackedRow& from) {
  const uint32_t blocks = matrix.blocks();
  if (matrix.format == Format::q4) return store_q4(tile, row, from, blocks);
  if (matrix.format == Format::f16) return store_words(tile, row, from.halves.data(), blocks * 4);
  store_words(tile, row, from.bytes.data(), blocks * 2);
  std::byte* const scales = tile + size_t{blocks} * 2 * TILE_ROWS * kWordBytes;
  for (uint32_t block = 0; block < blocks; ++block)
    std::memcpy(scales + size_t{IN_TILE(row, block / 2, (blocks + 1) / 2)} * 4 + block % 2 * 2, &from.halves[block], 2);
}

}  // namespace

const char* name(Format format) { return format == Format::q8 ? "q8" : format == Format::q4 ? "q4" : "f16"; }

DType file_type(Format format) {
  return format == Format::q8 ? DType::q8_0 : format == Format::q4 ? DType::q4_1 : DType::f16;
}

uint64_t Matrix::tile_bytes() const { return row_bytes(format, layout, blocks()) * TILE_ROWS; }

uint64_t packed_bytes(Format format, uint64_t rows, uint64_t cols) {
  if (format == Format::f16) return rows * cols * 2;
  return rows * ((cols + BLOCK - 1) / BLOCK) * block_bytes(file_type(format));
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
    View part = view;  // not view.part(): sizes are asked of matrices without a buffer, too
    part.offset += tile * tile_bytes();
    part.bytes = count * tile_bytes();
    result.push_back({part, row_base, std::min(static_cast<uint32_t>(count * TILE_ROWS), rows - row_base)});
  }
  return result;
}

void pack_tiles(const Matrix& matrix, std::span<const TensorView* const> parts, uint32_t first_tile,
                std::span<std::byte> out, std::span<Rounding> roundings) {
  std::fill(out.begin(), out.end(), std::byte{0});
  RowPacker packer(file_type(matrix.format), matrix.cols);
  std::optional<TableRowPacker> table_packer;
  if (matrix.layout == Layout::planes) table_packer.emplace(matrix.format, *matrix.basis);
  Rounding unwanted;
  uint64_t part_base = 0;
  size_t part = 0;
  for (uint64_t tile_row = 0; tile_row < out.size() / matrix.tile_bytes() * TILE_ROWS; ++tile_row) {
    const uint64_t row = uint64_t{first_tile} * TILE_ROWS + tile_row;
    while (part < parts.size() && row >= part_base + parts[part]->shape[0]) part_base += parts[part++]->shape[0];
    if (part == parts.size()) return;
    std::byte* const tile = out.data() + tile_row / TILE_ROWS * matrix.tile_bytes();
    const uint32_t place = static_cast<uint32_t>(tile_row % TILE_ROWS);
    Rounding& rounding = roundings.empty() ? unwanted : roundings[part];
    if (table_packer)
      table_packer->pack(*parts[part], row - part_base, tile, place, rounding);
    else
      store(matrix, tile, place, packer.pack(*parts[part], row - part_base, rounding));
  }
}

}  // namespace weft
