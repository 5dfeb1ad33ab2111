// The hidden states between a network's layers, and what its final norm and its vocabulary table make of them: the
// logit lens (nostalgebraist 2020, "interpreting GPT: the logit lens").
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/tuned_lens.h"
#include "run/shard_passes.h"
#include "run/watched_passes.h"

namespace weft {

// Passes over the layers that leave their hidden states for the CPU. Layer 0 is the embedding, layer i what the i-th
// layer leaves: the residual stream. If norms come after the branches, all of these are normed, the last one too.
class LayerStates {
 public:
  // pass: of a chunk of tokens; its buffers outlive this. layers: each at most config.layers. translators: nullptr, or
  // those of all layers but the last.
  LayerStates(const Pass& pass, std::span<const uint32_t> layers, Policy policy,
              std::unique_ptr<Translators> translators = nullptr);

  // Computes the next chunk of tokens: those from state.pos to state.end. Returns when they are computed.
  void run();
  // (width) of a token of the last chunk. layer: its place in `layers`.
  std::span<const float> state(size_t layer, uint32_t token) const { return row(states_, layer, token); }
  // The same, translated; the state itself without translators, and after the last layer.
  std::span<const float> translated(size_t layer, uint32_t token) const {
    return row(is_translated(layer) ? translated_ : states_, layer, token);
  }

 private:
  bool is_translated(size_t layer) const { return translators_ && translators_->has(layers_[layer]); }
  std::span<const float> row(const Buffer& states, size_t layer, uint32_t token) const;

  const Model& model_;
  uint32_t tokens_;
  std::vector<uint32_t> layers_;
  std::unique_ptr<Translators> translators_;
  Buffer states_, translated_;  // (layers, tokens, stride_of(width)), mapped; the second one with translators only
  std::optional<WatchedPasses> passes_;
};

// The way from hidden states to logits, as after the last layer: final norm, projection, bias, soft cap. If norms come
// after the branches, the states are normed already, and the norm is left out.
class Unembedding {
 public:
  // shards: of a table on several devices, outlives this; else nullptr.
  Unembedding(const Model& model, ShardPasses* shards);

  uint32_t rows() const { return rows_; }        // states of a run
  std::span<float> state(uint32_t row);          // (width), for the next run
  void run();                                    // returns when the logits are there
  std::span<const float> logits(uint32_t row) {  // (vocab) of the last run
    return {logits_.as<float>() + uint64_t{row} * stride_of(model_.config.vocab), model_.config.vocab};
  }

 private:
  void add_shards();

  const Model& model_;
  ShardPasses* shards_;
  uint32_t rows_;            // 1 with shards, which project one state at a time
  StepState step_;           // of a pass of rows_ tokens
  Buffer states_;            // (rows, stride_of(width)), mapped
  Buffer normed_, rotated_;  // the same
  Buffer logits_;            // (rows, stride_of(vocab)), mapped
};

}  // namespace weft
