// Mean squared inputs of a model's products over a text: an importance matrix (format/importance.h).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "format/importance.h"
#include "model/model.h"

namespace weft {

// Measures the products of the layers, but for those of experts, over texts: each a part with a context of its own.
// file: that the model was loaded from; the tensors have GGUF's names. progress is called with 0..1. Waits for all
// layers. Throws Error(unsupported) for encoders and encoder-decoders, and for folders of models with a Gated DeltaNet,
// whose columns are in another order than in GGUF files.
std::vector<SquaredInputs> squared_inputs(const Model& model, const ModelFile& file,
                                          std::span<const std::span<const uint32_t>> parts,
                                          const std::function<void(float)>& progress);

}  // namespace weft
