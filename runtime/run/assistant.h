// Gemma 4's drafter on its target's device (model/assistant.h): commands that guess the tokens after the next one, one
// after the other, from the state that the next one was chosen from.
#pragma once

#include <map>

#include "format/model_file.h"
#include "model/model.h"
#include "run/record_pass.h"

namespace weft {

// A guess takes the target's embedding of the token before it, beside a state: the target's last one, later the
// drafter's own. Its layers attend to the target's caches from one place: that of the session's last token, which has
// no key yet. So all guesses see the same keys, and nothing is kept from one to the next but the token and the state.
// Used by one session at a time.
class AssistantNetwork {
 public:
  // context: tokens of the session. The target outlives this. Throws as read_assistant_config, fit_assistant and
  // load_weights do, and Error(out_of_memory) if its layers do not stay on the device.
  AssistantNetwork(const Model& target, const ModelFile& file, uint32_t context);
  AssistantNetwork(const AssistantNetwork&) = delete;  // views point to the buffers
  AssistantNetwork& operator=(const AssistantNetwork&) = delete;

  // Before the commands, with nothing in flight: the session's last token, which was chosen from the target's last
  // state, and its position, at least 1.
  void begin(uint32_t id, size_t position);
  // Commands that take the target's last state (stride_of(width)) on the device; recorded once for each place.
  const CommandBuffer& take(const View& hidden);
  // Commands that then make `count` guesses, at least one; recorded once for each count. context: of the session,
  // always the same.
  const CommandBuffer& guess(uint32_t count, const ContextState& context);
  // The first `count` guesses of the commands, after they have run. A guess without a finite logit is 0xffffffff.
  std::span<const abi::Guess> guesses(uint32_t count) const { return {guesses_.as<abi::Guess>(), count}; }
  View logits() const { return activations_.logits; }  // (vocab) of the last guess

 private:
  void record(Recorder& r, uint32_t count, const ContextState& context) const;
  void read_input(Recorder& r) const;
  void choose(Recorder& r) const;

  const Model& target_;
  Model model_;
  ActivationBuffers activations_;
  StepBuffers step_;    // its pass stands at the last key; row i of its RoPE tables is of position i + 1
  StepState token_at_;  // of token_: the only token of a context
  Buffer token_;        // (1) id that the next guess follows
  Buffer state_;        // (stride_of(backbone)) beside its embedding
  Buffer rotated_;      // (stride_of(backbone)) the embedding in the basis of the target's table
  Buffer input_;        // (stride_of(2 * backbone)) the embedding, then the state
  Buffer greedy_;       // abi::SampleParams
  Buffer guess_;        // abi::Guess, the last one
  Buffer guesses_;      // (kMostDrafted) of abi::Guess
  CommandPool pool_;
  using Place = std::pair<decltype(std::declval<const Buffer&>().handle()), uint64_t>;
  std::map<Place, CommandBuffer> taken_;       // by the state's place
  std::map<uint32_t, CommandBuffer> guessed_;  // by the count
};

}  // namespace weft
