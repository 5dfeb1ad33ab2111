// Rows of a vocabulary table in a basis of its own, and that basis, read by the description in shaders/abi.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/rows.h"

namespace weft::reference {

// The basis that `words` (abi.h, BASIS_WORDS) describe.
struct TableBasis {
  static constexpr uint32_t kNone = 0xffffffff;

  explicit TableBasis(std::span<const uint32_t> words);

  std::vector<uint32_t> columns;  // of the model, for each stored column; kNone: a zero
  std::vector<double> signs[6];   // by round: of each stored column
  std::vector<double> mean;       // (columns.size()) in this basis
  std::vector<double> scales;     // of each stored column: multiply a state's, divide a row's

  // A hidden state of the model's columns in this basis: columns scaled and in their order, then all but the first 32
  // rotated by six rounds of signs and of H / sqrt(32) with H(i, j) = (-1)^popcount(i & j): alternately over 32 columns
  // as far apart as there are blocks, and over 32 neighbours, of which the first ones begin in the middle of a block.
  std::vector<double> state(std::span<const double> x) const { return rotate(x, false); }
  std::vector<double> row(std::span<const double> x) const { return rotate(x, true); }
  // Inverses of state() and row(), as long as `turned` has zeros where the model has no columns.
  std::vector<double> state_back(std::span<const double> turned) const { return rotate_back(turned, false); }
  std::vector<double> row_back(std::span<const double> turned) const { return rotate_back(turned, true); }

 private:
  std::vector<double> rotate(std::span<const double> x, bool is_row) const;
  std::vector<double> rotate_back(std::span<const double> turned, bool is_row) const;
  void turn(std::vector<double>& x, uint32_t round, bool back) const;
};

struct TableStage {
  double factor, error;
};
struct TableRow {
  double leading_scale = 0;
  double mean_product = 0;
  std::vector<TableStage> stages;  // 3; only 2 are estimates of a format of 4 bits
  std::vector<double> scales;      // of the rest's blocks
  std::vector<int32_t> integers;   // of the rest's elements: of 4, 8 or 16 bits
  std::vector<double> values;      // (32 * blocks)

  // Estimate of the rest by a stage (0, 1, 2: the first 1, 2 or 4 bits): the middle of the numbers with those bits, in
  // units of half a step of the stage for 1 and 2 bits (1, -1; 3, 1, -1, -3), times the block's scale for 4.
  std::vector<double> known(uint32_t stage, uint32_t bits) const;
};
// bits: 4, 8 or 16 of each number; `tiles` begins with tile 0.
TableRow read_table_row(std::span<const std::byte> tiles, uint32_t bits, uint32_t cols, uint32_t row);
size_t table_tile_bytes(uint32_t bits, uint32_t cols);

}  // namespace weft::reference
