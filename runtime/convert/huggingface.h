// Tensors, keys and tokenizer of a Hugging Face folder under their names in GGUF.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "format/gguf_writer.h"
#include "format/model_file.h"

namespace weft {

// A tensor to write: its name and shape there, and where its rows come from.
struct ConvertTensor {
  std::vector<const TensorView*> sources;  // one; or several of a shape, which are stacked
  std::string name;
  std::vector<uint64_t> shape = sources.at(0)->shape;
  // llama.cpp rotates neighbouring elements of these many heads, Transformers element i with i + half: the rows of the
  // queries and keys change places. 0: they stay.
  uint32_t rotated_heads = 0;
  // Number of heads whose rows (head, q k v, head_dim) become (q k v, head, head_dim). 0: the rows stay.
  uint32_t parted_heads = 0;
  // Heads that share keys lie side by side in a folder, (key_heads, each, dim); GGUF has (each, key_heads, dim). Rows
  // from `first` on change places, or columns. key_heads 0: they stay.
  struct Tiling {
    uint64_t first = 0;
    uint32_t key_heads = 0, each = 0, dim = 0;
    bool columns = false;
    uint64_t source(uint64_t index) const;
  } tiling = {};
  bool transposed = false;  // the source is (columns, rows)
  float offset = 0;         // added
  bool minus_exp = false;   // x becomes -exp(x)

  // The row of the sources, one after the other, that is row `row` of the new tensor. A vector whose elements change
  // places has rows of one.
  uint64_t source_row(uint64_t row) const;
  uint64_t columns() const;
};

// A folder in GGUF's words.
struct ConvertSource {
  std::vector<ConvertTensor> tensors;  // in the order of the file; they point into the folder's file and into `made`
  JsonValue keys;                      // of the network and its tokenizer
  struct Made {
    std::vector<float> floats;
    TensorView view;
  };
  std::deque<Made> made;  // tensors that the folder has in other words
};

// Checks the whole folder first. The keys are read back and must give the same network: a model that GGUF cannot state
// is refused. Throws as read_config, check_weights and gguf_tokenizer do, and Error(unsupported).
ConvertSource gguf_of_folder(const ModelFile& model);

// Adds keys with types that follow from their JSON values.
void add_keys(GgufWriter& writer, const JsonValue& keys);

}  // namespace weft
