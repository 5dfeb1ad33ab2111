// Runs inputs through a network whose tokens all see each other: BERT (Devlin et al. 2019), and the encoder that a
// decoder attends to (Vaswani et al. 2017).
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "model/schedule.h"

namespace weft {

// One thread at a time. The model, whose blocks see all, outlives it.
class Encoder {
 public:
  // context: tokens of the longest input. Throws Error(unsupported) for a model that is not an encoder.
  Encoder(const Model& model, uint32_t context);

  // Computes the hidden states of an input, of which the first Config::text_tokens - 1 and the last are read. Throws
  // Error(invalid_argument) for no ids or one outside the vocabulary, Error(context_full) for more than the context.
  void run(std::span<const uint32_t> ids);
  // The same for a model that reads sound: frames (kFramesPerPosition * positions, bands), for all its positions.
  void hear(std::span<const float> frames);

  // The following use the input of the last run.
  std::vector<float> embedding(Pooling pooling) const;  // (width), of length 1
  // Logits, one for each token of the vocabulary, of the token that a mask at this place hides. Throws
  // Error(unsupported) for a model without such a head, Error(invalid_argument) for a place outside the input.
  std::vector<float> masked_logits(size_t place);

  const ActivationBuffers& activations() const { return activations_; }  // `normed` has the hidden states
  const StepBuffers& step() const { return step_; }
  uint64_t bytes() const {
    return activations_.bytes() + cache_.bytes() + step_.bytes() + columns_.bytes() + frames_state_.bytes();
  }

 private:
  struct Recorded {
    std::vector<CommandBuffer> body;
    CommandBuffer end;
  };
  const Recorded& recorded(uint32_t tokens);
  void compute(uint32_t tokens);

  const Model& model_;
  uint32_t context_;
  ActivationBuffers activations_;
  ContextState cache_;
  StepBuffers step_;
  Buffer columns_, frames_state_;  // as SoundFrames has them; without bytes if the model reads tokens
  CommandPool pool_;
  std::map<uint32_t, Recorded> passes_;  // by most tokens
  SubmissionQueue queue_;
  size_t length_ = 0;  // of the input
};

// Input of an encoder-decoder: the keys and values that each layer of the decoder attends to.
class Source {
 public:
  // As Encoder's; the model is the decoder's. One that hears takes the encoder's context. format: of the keys and
  // values.
  Source(const Model& model, uint32_t context, Format format);

  // Reads an input. Throws as Encoder::run; the source is then empty.
  void read(std::span<const uint32_t> ids);
  const std::vector<uint32_t>& ids() const { return ids_; }  // of the input; empty: no input was read
  // The same for a model that hears. The frames are as Encoder::hear has them.
  void hear(const std::shared_ptr<const std::vector<float>>& frames);
  const std::vector<float>* heard() const { return heard_.get(); }  // nullptr: nothing was heard

  const ContextState& cache() const { return cache_; }
  uint64_t scratch_bytes() const { return encoder_.bytes(); }

 private:
  void read_states(uint32_t count);

  const Model& model_;
  uint32_t context_;
  Encoder encoder_;
  ContextState cache_;  // by decoder layer
  std::vector<uint32_t> ids_;
  std::shared_ptr<const std::vector<float>> heard_;
};

}  // namespace weft
