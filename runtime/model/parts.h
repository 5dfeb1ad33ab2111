// Which of a file's tensors a network's matrices and vectors are made of, checked. Not for other modules.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "model/tensors.h"
#include "model/weights.h"

namespace weft {

// Floats of a vector on the device: a tensor of the file, or a part of several behind one another.
struct Floats {
  const TensorView* tensor;
  float offset = 0;    // added
  uint64_t zeros = 0;  // without a tensor: so many of them

  uint64_t count() const { return tensor ? element_count(tensor->shape) : zeros; }
};

struct Part {
  const char* role;
  uint64_t rows;
};

// A matrix of a layer and its bias: what they are made of.
struct Linear {
  Matrix& matrix;
  uint64_t cols;
  std::vector<Part> parts;
  bool biased;
  uint32_t experts = 0;               // so many of them, one behind the other; 0: it is no expert's
  std::optional<Format> format = {};  // if not the layers'

  uint32_t copies() const { return std::max(experts, 1u); }
};

struct Vector {
  View& view;
  std::vector<Floats> parts;
};

// What a buffer of its own is made of: a layer's, or the masked-token head's.
struct Pieces {
  std::vector<Linear> matrices;
  std::vector<Vector> vectors;  // norms, and the matrices' biases
};

// Index: of a layer; -1: the network's own. All throw as Tensors' functions do.
class Parts {
 public:
  // Both outlive it. An encoder-decoder's halves have one each.
  Parts(const ModelFile& file, Config& config) : file_(file), config_(config), tensors_(file, config) {}

  // The whole file, before anything is uploaded: every tensor is there in its shape, and none is left over. encoder: of
  // an encoder-decoder's other half. Sets config.vocab.
  void check(Parts* encoder);

  struct Vocabulary {
    const TensorView *embedding, *output;  // no output: the embedding is that too
  };
  Vocabulary find_vocabulary();  // sets config.vocab
  static bool same_bytes(const TensorView& a, const TensorView& b);

  Pieces layer(LayerWeights& layer, int index);
  std::vector<Floats> norm_parts(std::string_view role, int index);
  std::vector<Floats> final_norm_parts();

  const TensorView& position_table();
  uint64_t first_position() const;  // the row of it that is position 0
  const TensorView* token_types();
  const TensorView& score_table();
  const TensorView* logit_bias();
  bool has_masked_head();
  Pieces masked_head(MaskedHead& head);

  using Sources = std::vector<std::vector<const TensorView*>>;  // of every linear's copies
  enum class AsStored { yes, no };  // yes: matrices that are turned or sorted when loaded are not yet
  Sources sources_of(const std::vector<Linear>& matrices, int index, AsStored as_stored);
  // What was turned or sorted goes: sources, and vectors' parts.
  void forget() { tensors_.forget(); }

 private:
  std::vector<Linear> matrices(LayerWeights& layer, int index);
  std::vector<Vector> vectors(LayerWeights& layer, int index, const std::vector<Linear>& matrices);
  void check_body();
  void check_copies(const TensorView& table) const;

  const ModelFile& file_;
  Config& config_;
  Tensors tensors_;
};

}  // namespace weft
