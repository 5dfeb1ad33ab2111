// Writes the tensors of a GGUF file, row by row on all cores.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/file.h"
#include "convert/huggingface.h"
#include "format/packed_row.h"

namespace weft {

// True if blocks of a type that is rounded by search stay as they are: the tensor has them already.
inline bool is_copied(const TensorView& tensor, DType type) { return tensor.dtype == type && !tensor.rows; }

class TensorWriter {
 public:
  // total: bytes that will be written, for progress. All outlive it.
  TensorWriter(AtomicFile& file, uint64_t total, const std::function<void(float)>& progress)
      : file_(file), total_(total), progress_(progress) {}

  // importance: factors of the squared errors, for each column, or for each column of each matrix; empty: all the same.
  // Types that are not rounded by search (convert/rounding/) ignore them. Throws Error(unsupported) naming the tensor
  // for a number that the type cannot hold, as RowPacker.
  Rounding write(const ConvertTensor& tensor, DType type, std::span<const float> importance, uint64_t padding);

 private:
  void flush();

  AtomicFile& file_;
  uint64_t total_, done_ = 0;
  const std::function<void(float)>& progress_;
  std::vector<std::byte> piece_;
};

}  // namespace weft
