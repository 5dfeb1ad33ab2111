// Work of a session's passes on the devices that have rows of the vocabulary tables (shards.h).
//
// The model's device computes the layers. The host copies data between devices: rows of the embedding to the model's
// device before a pass; after its layers the last hidden state to the others, and their logits back. These lie after
// the logits of the model's device, so the operations after a projection (penalties, filters, sampling,
// log-probabilities) do not know of the split.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/forward.h"

namespace weft {

// One thread at a time.
class ShardPasses {
 public:
  // tokens: of the longest pass. The model outlives this.
  ShardPasses(const Model& model, uint32_t tokens);
  ~ShardPasses();

  // On the model's device. Nothing that uses them may be in flight when the functions below are called.
  ShardViews views() const { return {rows_, state_, logits_}; }

  // Copies the rows of these tokens that the others have to views().rows; leaves the other rows as they are. ids: of a
  // pass.
  void gather(std::span<const uint32_t> ids);
  // Begins to project views().state on the others' rows. partial: if given, each device computes only those of its rows
  // that could be chosen if there were no others, by these sampling parameters and token flags; the other rows' logits
  // are -infinity.
  void begin_projection(const StepBuffers* partial = nullptr);
  // Waits for it, and leaves the logits in views().logits.
  void end_projection();
  // All throw Error(device_lost) naming the device.

 private:
  class OnShard;
  const uint32_t stride_;  // of a row
  Buffer rows_;            // (tokens, stride)
  Buffer state_;           // (stride)
  Buffer logits_;          // (rows of the others)
  std::vector<std::unique_ptr<OnShard>> shards_;
};

}  // namespace weft
