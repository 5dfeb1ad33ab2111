// Runs whole inputs through a network for their hidden states: BERT (Devlin et al. 2019), the encoder that a decoder
// attends to (Vaswani et al. 2017), and decoders that make embeddings or rate documents.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "run/record_pass.h"

namespace weft {

// One thread at a time. The model, which is not the decoder of an encoder-decoder, outlives it.
class Encoder {
 public:
  // context: tokens of the longest input. Memory is taken for an input of 512 tokens, and for longer ones when they
  // come. duties: as of a SubmissionQueue.
  Encoder(const Model& model, uint32_t context, Policy policy = Policy::throughput, std::vector<Duty*> duties = {});
  void reserve() { grow(context_); }  // takes the memory of the longest input

  // Computes the hidden states of an input, of which the first SentenceConfig::most_tokens - 1 and the last are read.
  // Throws Error(invalid_argument) for no ids or one outside the vocabulary, Error(context_full) for more than the
  // context.
  void run(std::span<const uint32_t> ids);
  // The same for a model that reads sound: frames (kFramesPerPosition * positions, bands), for all its positions.
  void hear(std::span<const float> frames);

  // The following use the input of the last run.
  // The first `size` elements of the embedding, 1 to SentenceConfig::size, scaled to length 1.
  std::vector<float> embedding(Pooling pooling, uint32_t size) const;
  std::vector<float> embedding(Pooling pooling) const {
    return embedding(pooling, model_.config.sentences.size(model_.config.width));
  }
  std::vector<float> last_state() const;  // (width), after the final norm
  // Logits, one for each token of the vocabulary, of the token that a mask at this place hides. Throws
  // Error(unsupported) for a model without such a head, Error(invalid_argument) for a place outside the input.
  std::vector<float> masked_logits(size_t place);

  // After a run.
  const ActivationBuffers& activations() const { return buffers_->activations; }  // `normed` has the hidden states
  const StepBuffers& step() const { return buffers_->step; }
  uint64_t bytes() const;

 private:
  struct Buffers {
    // pass_tokens: whole chunks.
    Buffers(const Model& model, uint32_t context, uint32_t pass_tokens)
        : activations(model, pass_tokens), cache(model, context, pass_tokens), step(model, context, context) {}

    ActivationBuffers activations;
    ContextState cache;
    StepBuffers step;
  };
  void grow(size_t tokens);
  const RecordedPass& recorded(uint32_t tokens);
  void compute(uint32_t tokens);

  const Model& model_;
  uint32_t context_;
  uint32_t capacity_ = 0;  // tokens that the buffers have room for
  std::optional<Buffers> buffers_;
  // As SoundFrames has them; without bytes if the model reads tokens.
  Buffer columns_;
  StepState frames_state_;
  CommandPool pool_;
  std::map<uint32_t, RecordedPass> passes_;  // by most tokens
  SubmissionQueue queue_;
  size_t length_ = 0;  // of the input
};

// Input of an encoder-decoder: the keys and values that each layer of the decoder attends to.
class Source {
 public:
  // As Encoder's; the model is the decoder's. One that hears takes the encoder's context. format: of the
  // session's keys and values. policy and duty: of the session, which outlives this.
  Source(const Model& model, uint32_t context, const ops::CacheFormat& format, Policy policy, Duty& duty);

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
  std::vector<CommandBuffer> record_reads(uint32_t tokens);

  const Model& model_;
  uint32_t context_;
  Encoder encoder_;
  ContextState cache_;  // by decoder layer
  CommandPool pool_;
  std::map<uint32_t, std::vector<CommandBuffer>> reads_;  // by tokens: of each layer of the decoder
  SubmissionQueue queue_;
  std::vector<uint32_t> ids_;
  std::shared_ptr<const std::vector<float>> heard_;
};

}  // namespace weft
