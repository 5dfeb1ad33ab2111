// The basis that a vocabulary table's columns are stored in.
//
// The energy of a model's hidden states is in few columns. These come first, and an estimate of a logit reads them
// whole. The other columns are rotated: rounds of random signs and of Hadamard matrices over 32 columns each, so that a
// few bits of a row tell about all of it, and the error that is left behaves like chance (Gao and Long 2024, "RaBitQ";
// Ailon and Chazelle 2009 for the rotation). Before the rotation, a row's columns are multiplied by scales and those of
// a hidden state divided by them, so that neither has columns much larger than the other's. None of this changes a
// product: a hidden state is rotated into the basis before the projection (ops::rotate), and a gathered row back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shaders/abi.h"

namespace weft {

class Basis {
 public:
  // For tables `width` wide. order: the columns, the one that decides most first; mean: the mean hidden state (width);
  // scales: of rows' columns (width), above 0. If empty: the columns' own order; a mean of 0; scales of 1.
  Basis(uint32_t width, std::span<const uint32_t> order, std::span<const float> mean, std::span<const float> scales,
        uint64_t seed = kSeed);
  explicit Basis(uint32_t width) : Basis(width, {}, {}, {}) {}

  static constexpr uint64_t kSeed = 0x57656674;
  uint32_t width() const { return width_; }
  uint32_t cols() const { return cols_; }                // stored: a multiple of 32, at least 32
  uint32_t rest() const { return cols_ / 32 - 1; }       // blocks after the leading one
  std::span<const float> mean() const { return mean_; }  // (cols) in this basis
  // to (cols) = from (width) in this basis: a row of the table, or a hidden state.
  void rotate_row(std::span<const float> from, std::span<float> to) const;
  void rotate_state(std::span<const float> from, std::span<float> to) const;
  std::vector<uint32_t> words() const;  // as shaders/abi.h lays it out, BASIS_WORDS(cols)

 private:
  void rotate(std::span<const float> from, std::span<const float> factors, std::span<float> to) const;

  uint32_t width_, cols_;
  std::vector<uint32_t> columns_;        // (cols) NO_COLUMN: zero
  std::vector<uint32_t> sources_;        // (cols) the same, 0 for none
  std::vector<float> scales_, inverse_;  // (cols) of rows, of hidden states; 0 where there is no column
  // By round: (cols) 1 or -1 by place, over the root of 32; those of the leading columns unused.
  std::vector<float> signs_[ROTATIONS];
  std::vector<float> mean_;
};

}  // namespace weft
