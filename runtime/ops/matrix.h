// A weight matrix as the device keeps it: tiles of rows, interleaved by 16-byte words (shaders/abi.h has the layout).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/format.h"
#include "gpu/buffer.h"
#include "ops/basis.h"

namespace weft {

// How a row's bits lie: whole values one after the other, or in a basis of their own and by planes (vocabulary tables
// that are projected on).
enum class Layout : uint32_t { values = TABLE_VALUES, planes = TABLE_PLANES };

// The shape and place of a tiled matrix; the buffer belongs to somebody else. A layer's matrix may have rows of two
// formats: whole tiles of the one, then those of the other.
struct Matrix {
  Format format = Format::f16;
  uint32_t rows = 0, cols = 0;
  View view;  // bytes() bytes
  Layout layout = Layout::values;
  View bias = {};                           // (rows) floats that matmul adds; none: nothing is added
  std::shared_ptr<const Basis> basis = {};  // of planes
  View basis_words = {};                    // the same on the device
  uint32_t first_rows = 0;  // not 0: rows from this one on have the format `second`; a multiple of TILE_ROWS
  Format second = Format::f16;

  uint32_t blocks() const { return (cols + BLOCK - 1) / BLOCK; }  // of a row
  uint32_t tiles() const { return (rows + TILE_ROWS - 1) / TILE_ROWS; }
  // A multiple of 256, so that any tile can start a view. Only for a matrix of one format.
  uint64_t tile_bytes() const;
  uint64_t bytes() const;
  bool has(Format wanted) const { return format == wanted || (first_rows > 0 && second == wanted); }
  // The rows of each format as a matrix of its own, without a bias: one matrix or two.
  std::vector<Matrix> runs() const;

  // A run of whole tiles that fits in one binding of at most max_bytes. Throws Error(unsupported) if no tile fits.
  struct Slice {
    View view;
    uint32_t row_base, rows;  // without the last tile's filling
    // Its formats, as a matrix has them.
    Format format;
    uint32_t first_rows = 0;
    Format second = Format::f16;
  };
  // A matrix of two formats is one slice, or each slice has one format.
  std::vector<Slice> slices(uint64_t max_bytes) const;
};

// Bytes of a matrix of this shape without padding, for reports.
uint64_t packed_bytes(Format format, uint64_t rows, uint64_t cols);

// Bytes of a row of a table that a head reads (shaders/abi.h).
struct PlaneBytes {
  uint32_t estimates[HEAD_ALL];  // by mode
  uint32_t refine[ESTIMATES];    // by stage
  uint32_t whole;                // to compute its logit
};
PlaneBytes plane_bytes(Format format, uint32_t cols);

// Packs tiles [first_tile, ...) of the matrix, which has one format, and whose rows are the parts' rows, one part after
// the other, into out (whole tiles). Every part is (rows, cols). roundings: one for each part, added to; or none.
// Rounds and throws as RowPacker does; a native format copies tensors of its types and throws as NumberFormat::copy
// does.
void pack_tiles(const Matrix& matrix, std::span<const TensorView* const> parts, uint32_t first_tile,
                std::span<std::byte> out, std::span<Rounding> roundings = {});

}  // namespace weft
