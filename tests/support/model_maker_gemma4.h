// The tensors and keys of a Gemma 4 with random weights. Only for model_maker.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "support/model_maker.h"

namespace weft {

// One tensor of the network, under both formats' names.
struct MadeTensor {
  std::string gguf, huggingface;
  std::vector<uint64_t> shape;     // (rows, cols), (experts, rows, cols), or (width) for a norm
  uint32_t rotated_heads = 0;      // of attn_q and attn_k: how many heads' rows are reordered
  std::optional<DType> type = {};  // if not that of the other matrices
  float factor = 1;                // of its numbers
  bool is_vector() const { return shape.size() == 1; }
  uint64_t rows() const { return is_vector() ? 1 : shape.size() == 3 ? shape[0] * shape[1] : shape[0]; }
  uint64_t columns() const { return shape.back(); }
};

std::vector<MadeTensor> gemma4_tensors(const LlamaShape& shape);
// p: the prefix of the architecture's keys.
void write_gemma4_keys(GgufWriter& writer, const LlamaShape& shape, const std::string& p);

}  // namespace weft
