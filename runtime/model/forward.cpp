// One token (or a chunk of prompt tokens) through the network, top to bottom. Read this first: a line is an operation,
// an operation is ops/NAME.cpp, shaders/NAME.comp, tests/ops/NAME_test.cpp and the row NAME of a profile.
#include "model/forward.h"

#include <algorithm>

namespace weft {

using ops::Output;

namespace {

// What a branch reads: norm(x), or x where the norms come after the branches.
ops::Input branch_input(Recorder& r, const Pass& pass, const View& norm) {
  const Config& c = pass.model.config;
  const Flow& a = pass.a;
  if (c.block.norm_after) return a.x;
  const ops::Input fused = ops::Input::normed(c.norm(), a.x, norm);
  if (c.experts.count == 0 && ops::can_fuse(r.device().plan(), fused, c.width, pass.tokens)) return fused;
  ops::norm(r, c.norm(), pass.step.state, a.x, norm, a.normed, pass.tokens, false);
  return a.normed;
}

// What the feed-forward's second product reads: the activated result of the first.
ops::Input activated(Recorder& r, const Pass& pass) {
  const Config& c = pass.model.config;
  const Flow& a = pass.a;
  const ops::Input fused = ops::Input::gated(c.block.activation, a.gate_up);
  if (c.block.gated && ops::can_fuse(r.device().plan(), fused, c.ffn, pass.tokens)) return fused;
  ops::activate(r, c.block.activation, c.block.gated, pass.step.state, a.gate_up, a.inner, c.ffn, pass.tokens);
  return a.inner;
}

// x += weights input; where a branch has a norm of its own, x += norm(weights input).
void add_branch(Recorder& r, const Pass& pass, const Matrix& weights, const ops::Input& input, const View& norm) {
  const Flow& a = pass.a;
  const View state = pass.step.state;
  if (!norm.buffer) return ops::matmul(r, weights, state, input, a.x, pass.tokens, Output::add);
  ops::matmul(r, weights, state, input, a.normed, pass.tokens, Output::write);
  ops::norm(r, pass.model.config.norm(), state, a.normed, norm, a.x, pass.tokens, false, Output::add);
}

// x = norm(x), where the norms come after the branches.
void close_branch(Recorder& r, const Pass& pass, const View& norm) {
  if (!pass.model.config.block.norm_after) return;
  ops::norm(r, pass.model.config.norm(), pass.step.state, pass.a.x, norm, pass.a.x, pass.tokens, false);
}

// x += the weighted sum of the chosen experts' feed-forwards (Jiang et al. 2024, "Mixtral of Experts").
void add_experts(Recorder& r, const Pass& pass, const LayerWeights& w, const View& input) {
  const Config& c = pass.model.config;
  const Flow& a = pass.a;
  const View state = pass.step.state;
  const uint32_t tokens = pass.tokens;
  ops::matmul(r, w.router, state, input, a.routing, tokens, Output::write);
  ops::route(r, c.experts, state, a.routing, a.chosen, tokens);
  for (uint32_t rank = 0; rank < c.experts.used; ++rank) {
    ops::matmul_expert(r, w.gate_up, c.experts, rank, state, a.chosen, input, a.gate_up, tokens, Output::write);
    ops::activate(r, c.block.activation, c.block.gated, state, a.gate_up, a.inner, c.ffn, tokens);
    ops::matmul_expert(r, w.down, c.experts, rank, state, a.chosen, a.inner, a.x, tokens, Output::add);
  }
}

ops::Attention attention(const Pass& pass, uint32_t layer) {
  ops::Attention attention = pass.model.config.attention(layer);
  if (const Buffer& biases = pass.model.weights.score_biases)
    attention.biases = {biases, pass.model.config.buckets.farthest};
  return attention;
}

// x += attention(norm(x)) to the output of an encoder: the keys and values are the input's, computed once (encoder.h).
void add_source(Recorder& r, const Pass& pass, uint32_t layer) {
  const Config& c = pass.model.config;
  const LayerWeights& w = pass.model.weights.layers[layer];
  const Flow& a = pass.a;
  const View state = pass.step.state;
  const ops::Input read = branch_input(r, pass, w.cross_norm);
  ops::matmul(r, w.cross_q, state, read, a.q, pass.tokens, Output::write);
  ops::attend(r, c.heads, {.scale = c.attention_scale, .sees = ops::Sees::source}, state, a.q,
              pass.source->layers[layer], a.attended, pass.tokens);
  add_branch(r, pass, w.cross_out, a.attended, View());
  close_branch(r, pass, w.cross_norm);
}

// The passes of one session each: a batch's lanes, else the pass itself. What each needs is recorded for all of them
// before the next operation, so that a barrier stands between operations and none between sessions.
std::span<const Pass> sessions(const Pass& pass) { return pass.lanes.empty() ? std::span(&pass, 1) : pass.lanes; }

// Puts the tokens' keys and values into their cache and lets them see what is there.
void attend_tokens(Recorder& r, const Pass& pass, uint32_t layer) {
  const Config& c = pass.model.config;
  const LayerPositions& positions = c.positions[layer];
  const auto rotation = [&](const Pass& one) {
    return ops::Rotation{c.pairs, positions.rotary_dim, one.step.turns[positions.rope]};
  };
  const Pass& any = sessions(pass).front();
  const bool fused = ops::can_turn(r.device().plan(), c.heads, attention(any, layer), rotation(any),
                                   any.cache.layers[layer].format, any.tokens);
  if (fused) {
    for (const Pass& one : sessions(pass)) {
      const ops::Rotation turns = rotation(one);
      ops::attend(r, c.heads, attention(one, layer), one.step.state, one.a.qkv, one.cache.layers[layer], one.a.attended,
                  one.tokens, &turns);
    }
    return;
  }
  for (const Pass& one : sessions(pass))
    ops::rope(r, c.heads, c.pairs, positions.rotary_dim, one.step.state, one.a.qkv, one.step.turns[positions.rope],
              one.a.q, one.cache.layers[layer], one.tokens);
  for (const Pass& one : sessions(pass))
    ops::attend(r, c.heads, attention(one, layer), one.step.state, one.a.q, one.cache.layers[layer], one.a.attended,
                one.tokens);
}

// Whether the projection itself can find the next tokens: the likeliest, of whose logits nothing else is wanted.
bool picks_best(const Pass& pass, std::span<const LaneTail> tails) {
  return !pass.model.weights.logit_bias && std::ranges::all_of(tails, [](const LaneTail& tail) {
    return tail.tail == Tail::greedy && !tail.head.partial && !tail.head.logprobs;
  });
}

// Leaves candidates of each session; gives how many.
uint32_t project_best(Recorder& r, const Pass& pass, uint32_t tokens) {
  const Table& head = pass.model.weights.head();
  const uint32_t count = ops::best_count(r.device().plan(), head.matrix());
  head.project_best(r, pass.a.normed, pass.a.candidates, candidate_stride(pass.model), tokens);
  return count;
}

// The next tokens, from the logits of each session's last, or from `candidates` that the projection has left.
void choose(Recorder& r, const Pass& pass, std::span<const LaneTail> tails, uint32_t candidates = 0) {
  const uint32_t vocab = pass.model.config.vocab;
  const auto each = [&](const auto& record) {
    for (size_t i = 0; i < tails.size(); ++i) {
      const HeadBuffers* const partial = tails[i].head.partial;
      const View lists = partial ? View(partial->lists) : View();
      record(sessions(pass)[i], tails[i], ops::Chosen{vocab, partial ? &lists : nullptr});
    }
  };
  const auto chooses = [](Tail tail) { return tail == Tail::greedy || tail == Tail::sampled; };
  each([&](const Pass& one, const LaneTail& tail, const ops::Chosen& from) {
    if (tail.tail == Tail::sampled)
      ops::adjust(r, one.step.state, one.step.params, one.step.marks, one.a.logits, one.a.scores, from);
  });
  each([&](const Pass& one, const LaneTail& tail, const ops::Chosen& from) {
    if (tail.tail == Tail::sampled) ops::threshold(r, one.step.state, one.step.params, one.a.scores, from);
  });
  each([&](const Pass& one, const LaneTail& tail, const ops::Chosen& from) {
    const View scores = tail.tail == Tail::sampled ? one.a.scores : one.a.logits;
    if (chooses(tail.tail) && candidates == 0)
      ops::pick(r, one.step.state, one.step.params, scores, one.a.candidates, from);
  });
  each([&](const Pass& one, const LaneTail& tail, const ops::Chosen& from) {
    if (chooses(tail.tail) && tail.head.logprobs)
      ops::logprobs(r, one.step.state, one.step.params, one.a.logits, one.a.candidates, one.step.logprobs, from);
  });
  each([&](const Pass& one, const LaneTail& tail, const ops::Chosen&) {
    const uint32_t picked = candidates ? candidates : ops::candidate_count(vocab);
    ops::advance(r, one.step.views(one.a), chooses(tail.tail) ? picked : 0, one.tokens);
  });
}

// The logits of those rows that the head lets through.
void project_some(Recorder& r, const Pass& pass, const TailHead& head) {
  const StepBuffers& step = pass.step;
  project_partly(r, pass.model.weights.head(), head.shapes, *head.partial,
                 {pass.a.normed, step.state, step.params, step.marks}, pass.a.logits);
}

}  // namespace

void record_embed(Recorder& r, const Pass& pass) {
  for (const Pass& lane : pass.lanes) record_embed(r, lane);
  if (!pass.lanes.empty()) return;
  const Config& c = pass.model.config;
  const Weights& w = pass.model.weights;
  const Flow& a = pass.a;
  const View state = pass.step.state, embedded = c.block.embedding_norm ? a.normed : a.x;
  w.embedding->gather(r, state, pass.step.history, embedded, pass.tokens, c.embedding_scale);
  if (c.has_position_table()) ops::position(r, state, w.positions, embedded, c.width, pass.tokens);
  if (c.block.embedding_norm) ops::norm(r, c.norm(), state, embedded, w.embedding_norm, a.x, pass.tokens, false);
}

// x += attention(norm(x)), then x += feed_forward(norm(x)): Llama's block (Touvron et al. 2023), and what other
// families add to it. Of a parallel one (Wang and Komatsuzaki 2021, "GPT-J-6B") both branches read the same x. Where
// the norms come after, x = norm(x + attention(x)), then x = norm(x + feed_forward(x)): the Transformer's first form
// (Vaswani et al. 2017). Its very last norm is the network's final one, which record_tail and Encoder apply.
void record_layer(Recorder& r, const Pass& pass, uint32_t layer) {
  const Config& c = pass.model.config;
  const LayerWeights& w = pass.model.weights.layers[layer];
  const Flow& a = pass.a;
  const View state = pass.step.state;
  const uint32_t tokens = pass.tokens;

  if (layer + 1 < c.layers) pass.model.weights.fetch(r, layer + 1);
  const ops::Input read = branch_input(r, pass, w.attention_norm);
  ops::matmul(r, w.qkv, state, read, a.qkv, tokens, Output::write);
  if (c.block.norm_heads) ops::norm_heads(r, c.heads, state, w.head_norms, a.qkv, c.epsilon, tokens);
  attend_tokens(r, pass, layer);
  if (!c.block.parallel) {
    add_branch(r, pass, w.out, a.attended, w.attention_branch_norm);
    close_branch(r, pass, w.attention_norm);
  }
  if (c.block.sees_source) add_source(r, pass, layer);

  const ops::Input inner = c.block.shared_norm ? read : branch_input(r, pass, w.ffn_norm);
  if (c.experts.count > 0) return add_experts(r, pass, w, inner.x);
  ops::matmul(r, w.gate_up, state, inner, a.gate_up, tokens, Output::write);
  const ops::Input second = activated(r, pass);
  if (c.block.parallel) add_branch(r, pass, w.out, a.attended, w.attention_branch_norm);
  add_branch(r, pass, w.down, second, w.ffn_branch_norm);
  if (layer + 1 < c.layers) close_branch(r, pass, w.ffn_norm);
}

void record_tail(Recorder& r, const Pass& pass, Tail tail, const TailHead& head) {
  const Config& c = pass.model.config;
  const Flow& a = pass.a;
  const LaneTail tails[] = {{tail, head}};
  pass.model.weights.fetch(r, 0);
  if (tail == Tail::none) return choose(r, pass, tails);
  ops::norm(r, c.norm(), pass.step.state, a.x, pass.model.weights.final_norm, a.normed, pass.tokens, true);
  if (picks_best(pass, tails)) return choose(r, pass, tails, project_best(r, pass, 1));
  if (head.partial)
    project_some(r, pass, head);
  else
    pass.model.weights.head().project(r, a.normed, a.logits, 1);
  if (const Buffer& bias = pass.model.weights.logit_bias) ops::add(r, bias, a.logits, c.vocab);
  choose(r, pass, tails);
}

void record_batch_tail(Recorder& r, const Pass& batch, std::span<const LaneTail> tails) {
  const Model& model = batch.model;
  const Flow& a = batch.a;
  model.weights.fetch(r, 0);
  ops::norm(r, model.config.norm(), batch.step.state, a.x, model.weights.final_norm, a.normed, batch.tokens, false);
  if (picks_best(batch, tails)) return choose(r, batch, tails, project_best(r, batch, batch.tokens));
  if (std::ranges::any_of(tails, [](const LaneTail& lane) { return !lane.head.partial; }))
    model.weights.head().project(r, a.normed, a.logits, batch.tokens);
  for (size_t i = 0; i < batch.lanes.size(); ++i)
    if (tails[i].head.partial) project_some(r, batch.lanes[i], tails[i].head);
  choose(r, batch, tails);
}

void record_score(Recorder& r, const Pass& pass, const View& block_logits, const View& nll, const HeadBuffers* masked) {
  const Config& c = pass.model.config;
  const Flow& a = pass.a;
  const StepBuffers& step = pass.step;
  const uint32_t block = pass.model.device->plan().block_tokens;
  pass.model.weights.fetch(r, 0);
  ops::norm(r, c.norm(), step.state, a.x, pass.model.weights.final_norm, a.normed, pass.tokens, false);
  const View choice = masked ? View(masked->choice) : View();
  const uint64_t block_bytes = uint64_t{block} * stride_of(c.width) * 4;
  for (uint32_t first = 0; first < pass.tokens; first += block) {
    pass.model.weights.head().project(r, a.normed.part(first / block * block_bytes, block_bytes), block_logits, block);
    ops::nll(r, step.state, step.history, block_logits, nll, c.vocab, first, block, masked ? &choice : nullptr,
             c.logit_cap);
  }
  ops::advance(r, step.views(a), 0, pass.tokens);
}

}  // namespace weft
