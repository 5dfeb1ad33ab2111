// The vocabulary table: one quantised buffer that the embedding gather reads on the way in and the vocabulary
// projection on the way out. A model with untied embeddings has two of them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gpu/upload.h"
#include "ops/ops.h"

namespace weft {

class Table {
 public:
  // Packs and uploads a (rows, cols) tensor. progress is told the bytes uploaded, piece by piece; rounding (may be
  // nullptr) what became of the numbers.
  Table(const std::shared_ptr<Device>& device, Uploader& uploader, const TensorView& tensor, Format format,
        std::string name, const std::function<void(uint64_t)>& progress, Rounding* rounding = nullptr);
  Table(const Table&) = delete;  // the matrix points into the buffer
  Table& operator=(const Table&) = delete;

  // x[t] = row of token history[pos + t] times scale, for the tokens of a pass.
  void gather(Recorder& recorder, const View& state, const View& history, const View& x, uint32_t tokens,
              float scale) const {
    ops::gather(recorder, matrix_, state, history, x, tokens, scale);
  }
  // logits[t] = every row's product with x[t]; tokens is a power of two or a multiple of plan.block_tokens.
  void project(Recorder& recorder, const View& x, const View& logits, uint32_t tokens) const {
    ops::project(recorder, matrix_, x, logits, tokens);
  }

  // The best rows for each x[t] alone (ops.h).
  void project_best(Recorder& recorder, const View& x, const View& candidates, uint32_t stride, uint32_t tokens) const {
    ops::project_best(recorder, matrix_, x, candidates, stride, tokens);
  }

  uint32_t rows() const { return matrix_.rows; }
  const Matrix& matrix() const { return matrix_; }
  const Buffer& buffer() const { return buffer_; }

 private:
  Buffer buffer_;
  Matrix matrix_;
};

// Packs the parts' rows, one part behind the other, into the matrix's view on the device. roundings: as pack_tiles'.
void upload_matrix(Uploader& uploader, const Matrix& matrix, std::span<const TensorView* const> parts,
                   const std::function<void(uint64_t)>& progress, std::span<Rounding> roundings = {});

}  // namespace weft
