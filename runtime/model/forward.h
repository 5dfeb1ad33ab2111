// The network, as dispatches.
#pragma once

#include "model/activations.h"

namespace weft {

// One pass of up to `tokens` tokens over a session's buffers: what each recording below needs.
struct Pass {
  const Model& model;
  const Flow& a;
  const StepBuffers& step;
  const KvCache& cache;
  uint32_t tokens;
  const KvCache* source = nullptr;  // of an encoder-decoder: keys and values of the input, by decoder layer
  // Of a batch, whose tokens belong to a session each: their passes of one token, over its row of `a`. `step` is then
  // the batch's, and says how many there are.
  std::vector<Pass> lanes = {};
};

// What follows the layers.
enum class Tail {
  none,     // a part of the prompt that is not its end: only move on
  greedy,   // the likeliest token
  sampled,  // a token drawn with the session's sampling parameters
  logits,   // the last token's logits, and move on
};

// How a tail gets its logits.
struct TailHead {
  const HeadBuffers* partial = nullptr;  // none: every row of the vocabulary
  HeadShapes shapes = {};
  bool logprobs = false;  // leave log-probabilities of each token too
};

void record_embed(Recorder& r, const Pass& pass);
void record_layer(Recorder& r, const Pass& pass, uint32_t layer);
void record_tail(Recorder& r, const Pass& pass, Tail tail, const TailHead& head);
struct LaneTail {
  Tail tail;
  TailHead head;
};
void record_batch_tail(Recorder& r, const Pass& batch, std::span<const LaneTail> tails);
// Negative log-likelihoods of every token of the pass but the last of the text. block_logits (block_tokens, vocab), nll
// (context).
// masked: over the rows of its mask alone.
void record_score(Recorder& r, const Pass& pass, const View& block_logits, const View& nll, const HeadBuffers* masked);

}  // namespace weft
