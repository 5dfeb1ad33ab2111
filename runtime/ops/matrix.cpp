#include "ops/matrix.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ops/table_row.h"

namespace weft {
namespace {

// Bytes of a row, without the filling of its tile.
uint64_t row_bytes(Format format, Layout layout, uint32_t blocks) {
  return layout == Layout::planes ? table_row_bytes(format, blocks - 1) : info(format).row_bytes(blocks);
}

}  // namespace

uint64_t Matrix::tile_bytes() const { return row_bytes(format, layout, blocks()) * TILE_ROWS; }

uint64_t Matrix::bytes() const {
  if (first_rows == 0) return tiles() * tile_bytes();
  uint64_t sum = 0;
  for (const Matrix& run : runs()) sum += run.bytes();
  return sum;
}

std::vector<Matrix> Matrix::runs() const {
  Matrix first = *this;
  first.bias = {};
  first.first_rows = 0;
  if (first_rows == 0) return {first};
  Matrix rest = first;
  first.rows = first_rows;
  rest.format = second;
  rest.rows -= first_rows;
  first.view.bytes = first.bytes();
  rest.view.offset += first.view.bytes;
  rest.view.bytes = rest.bytes();
  return {first, rest};
}

uint64_t packed_bytes(Format format, uint64_t rows, uint64_t cols) {
  if (is_native(format)) return rows * info(format).row_bytes(static_cast<uint32_t>((cols + BLOCK - 1) / BLOCK));
  const DType type = file_type(format);
  return rows * ((cols + block_elements(type) - 1) / block_elements(type)) * block_bytes(type);
}

std::vector<Matrix::Slice> Matrix::slices(uint64_t max_bytes) const {
  if (first_rows > 0) {
    if (bytes() <= max_bytes) return {{view, 0, rows, format, first_rows, second}};
    const std::vector<Matrix> both = runs();
    std::vector<Slice> all = both[0].slices(max_bytes);
    for (Slice slice : both[1].slices(max_bytes)) {
      slice.row_base += first_rows;
      all.push_back(slice);
    }
    return all;
  }
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
    result.push_back({part, row_base, std::min(static_cast<uint32_t>(count * TILE_ROWS), rows - row_base), format});
  }
  return result;
}

void pack_tiles(const Matrix& matrix, std::span<const TensorView* const> parts, uint32_t first_tile,
                std::span<std::byte> out, std::span<Rounding> roundings) {
  std::fill(out.begin(), out.end(), std::byte{0});
  const NumberFormat& format = info(matrix.format);
  std::optional<RowPacker> packer;
  if (format.store) packer.emplace(format.file_type, matrix.cols);
  std::optional<TableRowPacker> table_packer;
  if (matrix.layout == Layout::planes) table_packer.emplace(matrix.format, *matrix.basis);
  std::vector<std::byte> computed;
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
    else if (packer)
      format.store(tile, place, packer->pack(*parts[part], row - part_base, rounding), matrix.blocks());
    else if (parts[part]->rows)
      format.copy(tile, place, computed_row(*parts[part], row - part_base, parts[part]->dtype, computed, rounding), 0);
    else
      format.copy(tile, place, *parts[part], row - part_base);
  }
}

}  // namespace weft
