// One token (or a chunk of prompt tokens) through the network, top to bottom. Read this first: a line is an operation,
// an operation is ops/NAME.cpp, shaders/NAME.comp, tests/ops/NAME_test.cpp and the row NAME of a profile.
#include "model/forward.h"

#include <cmath>

namespace weft {

using ops::Output;

void record_embed(Recorder& r, const Pass& pass) {
  const Activations& a = pass.a;
  pass.model.weights.embedding->gather(r, pass.step.state, pass.step.history, a.x, pass.tokens);
}

// The Llama block (Touvron et al. 2023): x += attention(norm(x)), then x += feed_forward(norm(x)).
void record_layer(Recorder& r, const Pass& pass, uint32_t layer) {
  const Config& c = pass.model.config;
  const LayerWeights& w = pass.model.weights.layers[layer];
  const Activations& a = pass.a;
  const View state = pass.step.state;
  const ops::CacheView& cache = pass.cache.layers[layer];
  const float scale = 1 / std::sqrt(static_cast<float>(c.heads.head_dim));
  const uint32_t tokens = pass.tokens;

  ops::norm(r, state, a.x, w.attention_norm, a.normed, c.width, c.epsilon, tokens, false);
  ops::matmul(r, w.qkv, state, a.normed, a.qkv, tokens, Output::write);
  ops::rope(r, c.heads, c.pairs, c.rotary_dim, state, a.qkv, pass.step.turns, a.q, cache, tokens);
  ops::attend(r, c.heads, scale, state, a.q, cache, a.attended, tokens);
  ops::matmul(r, w.out, state, a.attended, a.x, tokens, Output::add);

  ops::norm(r, state, a.x, w.ffn_norm, a.normed, c.width, c.epsilon, tokens, false);
  ops::matmul(r, w.gate_up, state, a.normed, a.gate_up, tokens, Output::write);
  ops::swiglu(r, state, a.gate_up, a.inner, c.ffn, tokens);
  ops::matmul(r, w.down, state, a.inner, a.x, tokens, Output::add);
}

void record_tail(Recorder& r, const Pass& pass, Tail tail, const TailHead& head) {
  const Config& c = pass.model.config;
  const Activations& a = pass.a;
  const StepBuffers& step = pass.step;
  uint32_t candidates = 0;
  if (tail != Tail::none) {
    ops::norm(r, step.state, a.x, pass.model.weights.final_norm, a.normed, c.width, c.epsilon, pass.tokens, true);
    if (head.partial)
      project_partly(r, pass.model.weights.head(), head.shapes, *head.partial,
                     {a.normed, step.state, step.params, step.seen}, a.logits);
    else
      pass.model.weights.head().project(r, a.normed, a.logits, 1);
  }
  const View lists = head.partial ? View(head.partial->lists) : View();
  const ops::Chosen from = {c.vocab, head.partial ? &lists : nullptr};
  if (tail == Tail::sampled) {
    ops::adjust(r, step.state, step.params, step.seen, a.logits, a.scores, from);
    ops::threshold(r, step.state, step.params, a.scores, from);
  }
  if (tail == Tail::greedy || tail == Tail::sampled) {
    ops::pick(r, step.state, step.params, tail == Tail::greedy ? a.logits : a.scores, a.candidates, from);
    candidates = ops::candidate_count(c.vocab);
  }
  ops::advance(r, step.views(a), candidates, pass.tokens);
}

void record_score(Recorder& r, const Pass& pass, const View& block_logits, const View& nll, const HeadBuffers* masked) {
  const Config& c = pass.model.config;
  const Activations& a = pass.a;
  const StepBuffers& step = pass.step;
  const uint32_t block = pass.model.device->plan().block_tokens;
  ops::norm(r, step.state, a.x, pass.model.weights.final_norm, a.normed, c.width, c.epsilon, pass.tokens, false);
  const View choice = masked ? View(masked->choice) : View();
  const uint64_t block_bytes = uint64_t{block} * stride_of(c.width) * 4;  // a multiple of 256: block is at least 2
  for (uint32_t first = 0; first < pass.tokens; first += block) {
    pass.model.weights.head().project(r, a.normed.part(first / block * block_bytes, block_bytes), block_logits, block);
    ops::nll(r, step.state, step.history, block_logits, nll, c.vocab, first, block, masked ? &choice : nullptr);
  }
  ops::advance(r, step.views(a), 0, pass.tokens);
}

}  // namespace weft
