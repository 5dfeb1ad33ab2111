// Rows of any type as the three kinds of numbers Weft keeps, on the device and in files it writes: f16; q8, blocks of
// 32 int8 with an f16 scale; and q4, blocks of 32 integers of 0 .. 15 with an f16 scale and an f16 minimum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "format/tensor.h"

namespace weft {

// Errors of rounding a tensor's numbers; all zero if nothing was rounded.
struct Rounding {
  double largest_error = 0;  // |kept - file's|
  double largest_value = 0;  // |file's|, of the rows that may have been rounded
  double relative() const { return largest_value > 0 ? largest_error / largest_value : 0; }
};

// A row in blocks of 32. After the columns there are zeros; q4's integers there are 0, which need not stand for 0.
struct PackedRow {
  std::vector<uint16_t> halves;  // f16: the elements; q8 and q4: the blocks' scales
  std::vector<uint16_t> minima;  // q4: the blocks'
  std::vector<int8_t> bytes;     // q8 and q4: the integers
};

// A row of a quantised matrix (tensor.rows) as a tensor of one row whose numbers lie in `bytes`: in blocks of `type` if
// the rows have them, else as F32. Adds what rounding of the blocks' scales changes.
TensorView computed_row(const TensorView& tensor, uint64_t row, DType type, std::vector<std::byte>& bytes,
                        Rounding& rounding);

// Packs rows of one width, to F16, Q8_0 or Q4_1, which is q4. F16 to f16; Q8_0, Q4_0, Q5_0 and IQ4_NL to q8; Q4_0,
// Q4_1, Q1_0 and Q2_0 to q4 are exact; MXFP4 to q8 is, but for numbers below 2^-24, which are rounded to multiples of
// that; Q4_K to q4 rounds scales and minima only. Others round to the nearest, q8 with the scales largest magnitude /
// 127, as an f16, q4 as fit_q4 does (format/q4_block.h). Not for several threads at once.
class RowPacker {
 public:
  RowPacker(DType to, uint64_t columns);

  // The row of a (rows, columns) tensor, or the whole of a (columns) tensor; adds to rounding. The result is valid
  // until the next call. Throws Error(unsupported) naming the tensor if a value (of q4, or a block's minimum) is not
  // finite or too large for f16; of MXFP4 to q8, if one's size is above 12 * 2^18.
  const PackedRow& pack(const TensorView& tensor, uint64_t row, Rounding& rounding);

 private:
  void pack_f16(const TensorView& tensor, uint64_t row, Rounding& rounding);
  void pack_q8(const TensorView& tensor, uint64_t row, Rounding& rounding);
  void pack_q4(const TensorView& tensor, uint64_t row, Rounding& rounding);
  void pack_powers(const TensorView& tensor, uint64_t row, Rounding& rounding);
  void copy_q8(const TensorView& tensor, uint64_t row);
  void copy_f16(const TensorView& tensor, uint64_t row);

  DType to_;
  uint64_t columns_;
  std::vector<float> values_;
  std::vector<std::byte> computed_;  // of a quantised matrix
  PackedRow packed_;
};

}  // namespace weft
