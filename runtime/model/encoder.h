// Inputs through a network that sees all of an input at once: BERT (Devlin et al. 2019).
#pragma once

#include <map>
#include <span>
#include <vector>

#include "model/forward.h"

namespace weft {

// One thread at a time. The model, whose blocks see all, outlives it.
class Encoder {
 public:
  // Throws Error(unsupported) for a model that is no encoder.
  explicit Encoder(const Model& model);

  // Computes the hidden states of an input. Throws Error(invalid_argument) for no ids or one outside the vocabulary,
  // Error(context_full) for more than the model has positions.
  void run(std::span<const uint32_t> ids);

  // Of the last run's input:
  std::vector<float> embedding(Pooling pooling) const;  // (width), of length 1
  // The token that a mask at this place hides: a logit for each of the vocabulary. Throws Error(unsupported) for a
  // model without such a head, Error(invalid_argument) for a place outside the input.
  std::vector<float> masked_logits(size_t place);

 private:
  void record(uint32_t tokens);

  const Model& model_;
  Activations activations_;
  KvCache cache_;
  StepBuffers step_;
  CommandPool pool_;
  std::map<uint32_t, std::vector<CommandBuffer>> passes_;  // by most tokens
  Fence fence_;
  size_t length_ = 0;  // of the input
};

}  // namespace weft
