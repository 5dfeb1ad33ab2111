// Writing rows of a vocabulary table as planes of bits (shaders/abi.h has the layout).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "format/packed_row.h"
#include "ops/basis.h"
#include "shaders/abi.h"

namespace weft {

enum class Format : uint32_t;

uint32_t table_row_bytes(Format format, uint32_t rest);

// Packs rows of one table. Not for several threads at once.
//
// Let e be a row's rest in the table's basis, and s the same as its planes store it. A stage of estimates knows g, the
// first bits of s, as integers around 0 (four bits: times the blocks' scales). For each stage a row keeps the factor
// t = s.e / g.e, so that s - t g is at a right angle to e, and the error |s - t g|, rounded up. shaders/quantise.comp
// explains their use.
class TableRowPacker {
 public:
  TableRowPacker(Format format, const Basis& basis);

  // The row of a (rows, width) tensor, into row `place` of a tile, whose bytes are all zero where the row is. Adds to
  // rounding. Throws Error(unsupported) naming the tensor if a value is not finite or too large.
  void pack(const TensorView& tensor, uint64_t row, std::byte* tile, uint32_t place, Rounding& rounding);

 private:
  struct Stage {
    double factor, error;
  };
  void check_finite(const TensorView& tensor, uint64_t row) const;
  void store_leading(std::byte* tile, uint32_t row);
  void store_block(std::byte* tile, uint32_t row, uint32_t block);
  Stage stage(uint32_t number, double length);  // length: of s.e
  static void store_header(std::byte* tile, uint32_t row, uint32_t index, uint16_t half);

  Format format_;
  const Basis& basis_;
  std::vector<float> values_;  // (width) as the file has them
  std::vector<float> wanted_;  // (cols) in the basis
  std::vector<float> stored_;  // (cols) as they are stored
  std::vector<float> scales_;  // of the rest's blocks
  std::vector<int8_t> high_;   // (rest * 32) the integers' upper eight bits; of four bits, 16 times them
  std::vector<float> guess_;   // (rest * 32) what a stage knows
};

}  // namespace weft
