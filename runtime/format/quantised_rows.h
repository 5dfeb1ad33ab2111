// Rows of a matrix that a tool has quantised. A folder has several tensors of one matrix: integers, scales, ... The
// readers in format/quantised/ make one TensorView of them, whose rows this interface computes when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "format/tensor.h"

namespace weft {

// Constant; any number of threads may call the functions. row: below the number of rows of the whole matrix.
class QuantisedRows {
 public:
  virtual ~QuantisedRows() = default;

  virtual const char* method() const = 0;  // and bits, for reports: "GPTQ4"; static
  // The integers' bytes in the file.
  virtual std::span<const std::byte> stored() const = 0;
  // The numbers of a row, in float32.
  virtual void values(uint64_t row, std::span<float> out) const = 0;
  // True if blocks() makes rows of this type.
  virtual bool has_blocks(DType) const { return false; }
  // A row in blocks of 32 numbers. The numbers are those of values(), but their scales and minima are rounded to f16.
  virtual void blocks(uint64_t row, DType type, std::byte* out) const;
  // True if that rounding changes something for this type.
  virtual bool blocks_are_rounded(DType) const { return true; }
};

// Rows in another order: row i is source(i) of `rows`. stored: their part of rows->stored().
std::shared_ptr<const QuantisedRows> reordered(std::shared_ptr<const QuantisedRows> rows,
                                               std::function<uint64_t(uint64_t)> source,
                                               std::span<const std::byte> stored);

}  // namespace weft
