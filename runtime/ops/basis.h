// The basis that a vocabulary table's columns are stored in.
//
// The energy of a model's hidden states is in few columns. Those come first, and an estimate of a logit reads them
// whole. What follows is rotated: rounds of random signs and of Hadamard matrices over 32 columns each, so that a
// few bits of a row tell about all of it, and what they leave behaves like chance (Gao and Long 2024, "RaBitQ"; Ailon
// and Chazelle 2009 for the rotation). A rotation changes no product: a hidden state is rotated before the projection
// (ops::rotate), and a gathered row back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shaders/abi.h"

namespace weft {

class Basis {
 public:
  // For tables `width` wide. order: the columns, the one of the largest energy first; mean: the mean hidden state
  // (width). Both empty: unknown, which is columns in their own order and a mean of 0.
  Basis(uint32_t width, std::span<const uint32_t> order, std::span<const float> mean, uint64_t seed = kSeed);
  explicit Basis(uint32_t width) : Basis(width, {}, {}) {}

  static constexpr uint64_t kSeed = 0x57656674;
  uint32_t width() const { return width_; }
  uint32_t cols() const { return cols_; }                // stored: a multiple of 32, at least 32
  uint32_t rest() const { return cols_ / 32 - 1; }       // blocks behind the leading one
  std::span<const float> mean() const { return mean_; }  // (cols) in this basis
  // to (cols) = from (width) in this basis.
  void rotate(std::span<const float> from, std::span<float> to) const;
  std::vector<uint32_t> words() const;  // as shaders/abi.h lays it out, BASIS_WORDS(cols)

 private:
  uint32_t width_, cols_;
  std::vector<uint32_t> columns_;        // (cols) NO_COLUMN: zero
  std::vector<float> signs_[ROTATIONS];  // by round: (cols) 1 or -1 by place, those of the leading columns unused
  std::vector<float> mean_;
};

}  // namespace weft
