// The vocabulary table: one quantised buffer that ops::gather reads on the way in and ops::project on the way out. A
// model with untied embeddings has two of them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu/upload.h"
#include "ops/ops.h"

namespace weft {

class Table {
 public:
  // Packs and uploads the rows of the parts, each (rows, cols), one part after the other, in the basis, or, if there is
  // none, as it is: then it can only be gathered from. progress is told the bytes uploaded, piece by piece; rounding
  // (may be nullptr) what became of the numbers.
  Table(const std::shared_ptr<Device>& device, Uploader& uploader, std::span<const TensorView> parts, Format format,
        std::shared_ptr<const Basis> basis, std::string name, const std::function<void(uint64_t)>& progress,
        Rounding* rounding = nullptr, Memory memory = Memory::device);
  Table(const Table&) = delete;  // the matrix points into the buffer
  Table& operator=(const Table&) = delete;

  uint32_t rows() const { return matrix_.rows; }
  const Matrix& matrix() const { return matrix_; }
  const Buffer& buffer() const { return buffer_; }
  uint64_t bytes() const { return buffer_.bytes() + basis_words_.bytes(); }

 private:
  Buffer buffer_, basis_words_;
  Matrix matrix_;
};

// Packs the rows of the parts, one part after the other, and uploads them to the matrix's view. roundings: as
// pack_tiles'.
void upload_matrix(Uploader& uploader, const Matrix& matrix, std::span<const TensorView* const> parts,
                   const std::function<void(uint64_t)>& progress, std::span<Rounding> roundings = {});

}  // namespace weft
