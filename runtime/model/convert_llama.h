// What a Hugging Face folder of the Llama family is called in a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "format/model_file.h"

namespace weft {

// A tensor to write: its name there, and where its rows come from.
struct ConvertTensor {
  const TensorView* source;
  std::string name;
  // llama.cpp rotates neighbouring elements of these many heads, Transformers element i with i + half: the rows of the
  // queries and keys change places. 0: they stay.
  uint32_t rotated_heads = 0;
};

// The row of the source that is row `row` of the new tensor.
uint64_t source_row(const ConvertTensor& tensor, uint64_t row);

// The tensors in the order of a GGUF file; they point into model. Throws Error(unsupported) for other families and for
// tensors that are no part of the network, Error(bad_file) for those that are missing or of a wrong shape.
std::vector<ConvertTensor> llama_tensors(const ModelFile& model);

// Adds the keys that describe the network and its tokenizer. Throws as gguf_tokenizer does.
void add_llama_keys(GgufWriter& writer, const ModelFile& model);

}  // namespace weft
