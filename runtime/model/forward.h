// The network, as dispatches.
#pragma once

#include "model/activations.h"

namespace weft {

// Data exchanged between the model's device and others that have rows of the vocabulary tables (shard_passes.h), in
// mapped memory of the model's device. No buffers if the model's device has all rows.
struct ShardViews {
  View rows;    // (tokens, stride_of(width)) of the embedding, gathered there; in the table's basis, if it has one
  View state;   // (stride_of(width)) to project there, in the table's basis
  View logits;  // of the rows there, which come after the device's own

  explicit operator bool() const { return rows.buffer != nullptr; }
};

class Adapter;

// The adapter of a session (adapter.h), if it has one.
struct AdapterUse {
  const Adapter* adapter = nullptr;
  View scratch = {};  // (tokens, adapter->rank()), for the products with A
};

// Members of a batch whose states lie side by side: their mixers' work on them is one dispatch.
struct Neighbours {
  std::vector<uint32_t> members;
  View list;  // an abi::BatchMember of each
};

// One pass of up to `tokens` tokens over a session's buffers. Every recording below needs one.
class ProductInputs;

struct Pass {
  const Model& model;
  const Activations& a;
  const StepBuffers& step;
  const ContextState& context;
  uint32_t tokens;
  const ContextState* source = nullptr;  // of an encoder-decoder: keys and values of the input, by decoder layer
  // Passes of a batch's sessions, each over its own rows of `a`. `step` is then the batch's own, and has the number of
  // tokens.
  std::vector<Pass> members = {};
  SoundFrames sound = {};  // of an encoder that reads sound
  View soft_rows = {};     // (soft tokens, stride_of(width)); without a buffer if the context has none
  // The same, added to x of the soft tokens after the first layers (Config::deepstack); empty: the context has no
  // picture.
  std::vector<View> deepstack = {};
  ShardViews shards = {};
  std::vector<Neighbours> neighbours = {};  // of the members
  AdapterUse adapter = {};                  // of a session; the members of a batch have theirs
  bool picture = false;                     // the tokens are a picture, and see each other
  bool tree = false;                        // it checks a draft that is a tree (abi.h, StepState)
  ProductInputs* inputs = nullptr;          // keeps copies of the products' inputs; nullptr: nobody wants them

  // One pass per session: a session is a batch of one. Work for each session is recorded for all sessions before the
  // next operation, so barriers separate operations only, never sessions.
  std::span<const Pass> sessions() const { return members.empty() ? std::span(this, 1) : members; }
};

// End of a pass after its layers, for one session.
struct Tail {
  enum class Kind {
    none,     // a part of the prompt that is not its end: only move on
    greedy,   // the likeliest token
    sampled,  // a token drawn with the session's sampling parameters
    logits,   // the last token's logits, and move on
  };
  Kind kind = Kind::none;
  const PartialHeadBuffers* partial = nullptr;  // nullptr: every row of the vocabulary
  PartialHeadSteps steps = {};                  // of a partial head
  bool logprobs = false;                        // leave log-probabilities of each token too
  // (vocab) floats: 0, or -infinity for tokens that may not follow. Replaces a partial head's mask if other devices
  // have rows of the table, and with an OutputHead; nullptr: any token may follow.
  const Buffer* mask = nullptr;
  uint32_t timestamps = 0;  // not 0: the first timestamp, for ops::timestamps

  bool chooses() const { return kind == Kind::greedy || kind == Kind::sampled; }
  auto operator<=>(const Tail&) const = default;
};

void record_embed(Recorder& r, const Pass& pass);
// In place of record_embed, for a pass whose input is in pass.a.x: prepares it for the first layer.
void record_input(Recorder& r, const Pass& pass);
void record_layer(Recorder& r, const Pass& pass, uint32_t layer);
// tails: by session, in the order of the batch. Tail::Kind::none and logits: only in the pass of a single session.
void record_tail(Recorder& r, const Pass& pass, std::span<const Tail> tails);
// The same in three steps, if other devices have rows of the table; for the pass of a single session. First writes
// pass.shards.state, which these devices project.
void record_shard_state(Recorder& r, const Pass& pass);
// Then projects the device's own rows, while the others project theirs. A partial head does the same as they do
// (shard_passes.h).
void record_own_rows(Recorder& r, const Pass& pass, const Tail& tail);
// Finally merges the shards' logits, pass.shards.logits, and samples.
void record_shard_tail(Recorder& r, const Pass& pass, const Tail& tail);
// Records the end of a pass whose last tokens are a draft. Chooses a token after each token of the pass, one after the
// other, as record_tail would in passes of their own, until a token differs from the draft. by_token: the same pass for
// each token of a session, over that token's row of `a` (in a batch, the members' rows). tails: by session, greedy or
// sampled. masks: one for each token, if the tail is masked; only the tail of a single session can be.
// If the draft is a tree, moves what its chosen rows left to where a chain would have it.
void record_check(Recorder& r, const Pass& pass, std::span<const Pass> by_token, std::span<const Tail> tails,
                  const View& masks);
// Leaves negative log-likelihoods of every token of the pass but the last of the text in nll (context); group_logits
// (block_tokens, vocab) is scratch. masked: over the rows of its mask alone.
void record_score(Recorder& r, const Pass& pass, const View& group_logits, const View& nll,
                  const PartialHeadBuffers* masked);

}  // namespace weft
