// Mean squared inputs of a model's products over a text: an importance matrix (format/importance.h).
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "format/importance.h"
#include "model/model.h"

namespace weft {

struct Network;

// The inputs of a pass's products. A product records a copy of its input before it reads it.
class ProductInputs {
 public:
  explicit ProductInputs(const Model& model) : model_(model) {}
  ProductInputs(const ProductInputs&) = delete;
  ProductInputs& operator=(const ProductInputs&) = delete;

  // While a pass is recorded: a copy of an input's rows.
  void take(const Network& network, const Linear& product, const ops::Input& input);
  // After the pass has run: adds the squares of its first `tokens` rows to the product's sums.
  void add(const Linear& product, uint64_t tokens, std::vector<double>& sums) const;
  bool has(const Linear& product) const { return copies_.contains(&product); }

 private:
  struct Copy {
    Buffer rows;  // (tokens of the pass, stride)
    uint32_t stride, cols;
    uint32_t sums;  // not 0: a norm that has begun (ops::BegunNorm), with so many partial sums
    float epsilon;
  };
  const Model& model_;
  std::map<const Linear*, Copy> copies_;
};

// Measures the products of the layers, but for those of experts, over texts: each a part with a context of its own.
// file: that the model was loaded from; the tensors have GGUF's names. progress is called with 0..1. Waits for all
// layers. Throws Error(unsupported) for encoders and encoder-decoders, and for folders of models with a Gated DeltaNet,
// whose columns are in another order than in GGUF files.
std::vector<SquaredInputs> squared_inputs(const Model& model, const ModelFile& file,
                                          std::span<const std::span<const uint32_t>> parts,
                                          const std::function<void(float)>& progress);

}  // namespace weft
