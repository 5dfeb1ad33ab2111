// The states of all layers of a session, on the device (model/layer.h says what a state is).
#pragma once

#include <memory>
#include <vector>

#include "model/config.h"

namespace weft {

struct Model;
struct Plan;

// Positions after the next one that passes may have written before they are taken back: drafts and passes ahead.
inline constexpr uint32_t kMostTakenBack = 12;
// Copies of the recurrent states that a session has room for.
inline constexpr uint32_t kMostCheckpoints = 6;

// Tokens of the largest pass: a chunk of a prompt, or a whole picture.
uint32_t most_pass_tokens(const Config& config, const Plan& plan);

struct StateSize {
  const Plan& plan;
  uint32_t context;      // tokens
  uint32_t pass_tokens;  // most tokens of a pass
  ops::CacheFormat format = {};
};

// The arrays of a state, in the order of its mixer.
std::vector<View> arrays_of(const LayerState& state);
// The bytes that hold a context's first tokens; see layer.h.
std::vector<View> parts_of(const LayerState& state, uint64_t tokens, uint64_t written);
bool holds(const LayerState& state, uint64_t tokens, uint64_t written);
bool is_recurrent(const LayerState& state);
CopiedRange copied(const LayerState& state, uint64_t tokens);

// The states of all layers, without buffers: each array begins at 0. Throws Error(unsupported) for a context too large
// for the device.
struct StateLayout {
  StateLayout(const Config& config, const StateSize& size);
  std::vector<LayerState> layers;
  uint64_t bytes = 0;            // of a session's arrays
  uint64_t scratch_bytes = 0;    // that all layers of a session share
  uint64_t recurrent_bytes = 0;  // of what a checkpoint copies
  uint64_t checkpoint_bytes() const { return kMostCheckpoints * recurrent_bytes; }
};

// Buffers with the states of as many sessions as there are slots. The same array of all of them lies side by side.
struct StateBuffers {
  StateBuffers(const Model& model, const StateLayout& layout, uint32_t slots);
  StateBuffers(const StateBuffers&) = delete;  // the views point to the buffers
  StateBuffers& operator=(const StateBuffers&) = delete;

  uint32_t slots;
  std::vector<Buffer> buffers;     // each of one layer or of several
  std::vector<LayerState> layers;  // of all slots
};

// Sessions that are made together, of one model, context and type of cache. Their states share buffers, which exist as
// long as one of the sessions is on the device.
class StateGroup {
 public:
  explicit StateGroup(uint32_t sessions) : sessions_(sessions) {}
  // The buffers; the first call makes them. If an array of all sessions is too large for a binding, or for a buffer of
  // reasonable size, every session gets its own buffers with one slot.
  std::shared_ptr<const StateBuffers> buffers(const Model& model, const StateLayout& layout);

 private:
  uint32_t sessions_;
  std::weak_ptr<const StateBuffers> buffers_;
};

// A session's place in a group; none: it is by itself.
struct StatePlace {
  std::shared_ptr<StateGroup> group;
  uint32_t slot = 0;
};

// Types of the caches of cross-attention in a session with these: q8 instead of q4, because rotated keys would need
// rotated queries.
ops::CacheFormat source_format(const ops::CacheFormat& format);

// A session's states of every layer.
struct ContextState {
  ContextState(const Model& model, uint32_t context, uint32_t pass_tokens, const ops::CacheFormat& format = {},
               const StatePlace& place = {});
  uint64_t bytes() const { return bytes_; }
  uint64_t scratch_bytes() const { return scratch_.bytes(); }
  // Shared by all layers; zero when first used. Without a buffer if none needs it.
  View scratch() const { return scratch_ ? View(scratch_) : View(); }

  std::shared_ptr<const StateBuffers> buffers;
  uint32_t slot;  // of the buffers
  std::vector<LayerState> layers;

 private:
  uint64_t bytes_;
  Buffer scratch_;
};

}  // namespace weft
