// One token (or a chunk of prompt tokens) through the network, top to bottom. Read this first: almost every line is an
// operation, and an operation NAME is ops/NAME.cpp, shaders/NAME.comp, tests/ops/NAME_test.cpp and the row NAME of a
// profile. A suffix is another use of the same files: project_best is in ops/project.cpp, rotate_back in
// ops/rotate.cpp.
#include "model/forward.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace weft {

using ops::Output;

namespace {

// A pass, with what almost every operation of it needs. Steps come first, the parts they are made of after them.
struct Network {
  Network(Recorder& recorder, const Pass& p) : r(recorder), pass(p) {}

  Recorder& r;
  const Pass& pass;
  const Config& c = pass.model.config;
  const Weights& w = pass.model.weights;
  const Activations& a = pass.a;
  const View state = pass.step.state;
  const uint32_t tokens = pass.tokens;

  void embed() const {
    const Matrix& embedding = w.embedding->matrix();
    const bool turned = embedding.layout == Layout::planes, normed = c.layer_kind.embedding_norm;
    for (const Pass& one : pass.sessions())
      Network(r, one).gather(embedding, turned ? one.a.rotated : normed ? one.a.normed : one.a.x);
    const ops::BeginNorm begin = {w.attention_norm(0), a.begun};
    const bool begins = embedding_begins_norm();
    const bool later = std::ranges::any_of(pass.sessions(), [](const Pass& one) { return one.soft_rows.buffer; });
    if (turned)
      ops::rotate_back(r, embedding, a.rotated, normed ? a.normed : a.x, tokens, begins && !later ? &begin : nullptr);
    for (const Pass& one : pass.sessions()) {
      const View& rows = normed ? one.a.normed : one.a.x;
      if (one.soft_rows.buffer)
        ops::insert_rows(r, one.step.state, one.step.history, one.soft_rows, rows, c.width, one.tokens);
      if (c.has_position_table()) ops::add_positions(r, one.step.state, w.positions, rows, c.width, one.tokens);
    }
    if (begins && later) ops::begin_norm(r, embedding, a.x, begin, tokens);
    if (normed) norm(a.normed, w.embedding_norm, a.x);
  }

  // x += attention(norm(x)), then x += feed_forward(norm(x)): Llama's group (Touvron et al. 2023), and what other
  // families add to it. In a parallel group (Wang and Komatsuzaki 2021, "GPT-J-6B") both branches read the same x. If
  // norms come after the branches, x = norm(x + attention(x)), then x = norm(x + feed_forward(x)): the Transformer's
  // first form (Vaswani et al. 2017). Its very last norm is the network's final one, which tail() and Encoder apply.
  void layer(uint32_t index) const {
    const LayerWeights& l = w.layers[index];
    const bool last = index + 1 == c.layers;
    const ops::Input read =
        index == 0 && embedding_begins_norm()
            ? ops::BegunNorm{a.begun, c.norm(), 1}
            : branch_input(w.attention_norm(index), index > 0 ? &w.layers[index - 1].down : nullptr);
    matmul(l.qkv, read, a.qkv);
    if (c.layer_kind.norm_heads) ops::norm_heads(r, c.heads, state, l.head_norms, a.qkv, c.epsilon, tokens);
    attend(index);
    if (!c.layer_kind.parallel) {
      add_branch(l.out, a.attended, l.attention_branch_norm, l.ffn_norm);
      close_branch(w.attention_norm(index));
    }
    if (c.layer_kind.sees_source) add_source(index);

    const ops::Input inner = c.layer_kind.shared_norm ? read : branch_input(l.ffn_norm, &l.out);
    if (c.experts.count > 0) return add_experts(l, inner.x);
    expand(l.gate_up, inner);
    if (c.layer_kind.parallel) add_branch(l.out, a.attended, l.attention_branch_norm);
    add_branch(l.down, a.inner, l.ffn_branch_norm, last ? View() : w.attention_norm(index + 1));
    if (!last) close_branch(l.ffn_norm);
  }

  // The next token of each session.
  void tail(std::span<const Tail> tails) const {
    if (tails.front().kind == Tail::Kind::none) return choose(tails);
    const bool batch = !pass.members.empty();  // of a batch every token is projected, else the pass's last one
    const uint32_t rows = batch ? tokens : 1;
    end_norm(!batch);
    if (projection_picks(tails)) {
      ops::project_best(r, table(), a.rotated, a.candidates, candidate_stride(pass.model), rows);
      return choose(tails, ops::best_count(r.device().plan(), table()));
    }
    if (w.softmaxes)
      mix_softmaxes(rows, a.normed, a.logits);
    else if (!std::ranges::all_of(tails, [](const Tail& tail) { return tail.partial; }))
      ops::project(r, table(), a.rotated, a.logits, rows);
    finish_logits(tails);
    choose(tails);
  }

  // tail() in three steps: beside the second one other devices project the state on their rows.
  void shard_state() const {
    end_norm(true);
    r.copy(a.rotated.part(0, pass.shards.state.bytes), pass.shards.state);
  }
  void own_rows() const { ops::project(r, table(), a.rotated, a.logits, 1); }
  void shard_tail(const Tail& tail) const {
    r.copy(pass.shards.logits, a.logits.part(uint64_t{table().rows} * 4, pass.shards.logits.bytes));
    finish_logits({&tail, 1});
    choose({&tail, 1});
  }

  // Chooses a token after each token of each session, until one differs from the session's draft.
  void check(std::span<const Pass> by_token, std::span<const Tail> tails, const View& masks) const {
    end_norm(false);
    const bool picks = projection_picks(tails);
    if (picks)
      ops::project_best(r, table(), a.rotated, a.candidates, candidate_stride(pass.model), tokens);
    else if (!std::ranges::all_of(tails, [](const Tail& tail) { return tail.partial; }))
      ops::project(r, table(), a.rotated, a.logits, tokens);
    for (const Pass& one : pass.sessions()) ops::advance_draft(r, one.step.views(one.a), 0);
    const Tail& first = tails.front();
    const uint64_t mask_bytes = (c.vocab + 31) / 32 * 4;
    for (size_t i = 0; i < by_token.size(); ++i) {
      const Network here(r, by_token[i]);
      if (first.partial && first.steps.masked)
        r.copy(masks.part(i * mask_bytes, mask_bytes),
               View(first.partial->allowed_rows).part(uint64_t{c.vocab} * 4, mask_bytes));
      if (!picks) here.finish_logits(tails);
      here.choose(tails, picks ? ops::best_count(r.device().plan(), table()) : 0, true);
    }
  }

  // The negative log-likelihoods of the pass's tokens, in groups as large as a product computes at once.
  void score(const View& group_logits, const View& nll, const PartialHeadBuffers* masked) const {
    const uint32_t group = pass.model.device->plan().block_tokens;
    const uint64_t group_bytes = uint64_t{group} * stride_of(c.width) * 4;
    const View allowed = masked ? View(masked->allowed_rows) : View();
    end_norm(false);
    for (uint32_t first = 0; first < tokens; first += group) {
      const uint64_t at = first / group * group_bytes;
      if (w.softmaxes)
        mix_softmaxes(group, a.normed.part(at, group_bytes), group_logits);
      else
        ops::project(r, table(), a.rotated.part(at, group_bytes), group_logits, group);
      ops::nll(r, state, pass.step.history, group_logits, nll, c.vocab, first, group, masked ? &allowed : nullptr,
               c.logit_cap);
    }
    ops::advance(r, pass.step.views(a), 0, tokens);
  }

 private:
  // That states are projected on. An encoder of pictures has none.
  const Matrix& table() const { return w.output_table().matrix(); }
  // a.normed = the final norm of x, and a.rotated the same in the table's basis, if one softmax is projected.
  // last_only: of the pass's last token, in row 0.
  void end_norm(bool last_only) const {
    if (!w.softmaxes && c.norm().kind == ops::NormKind::rms)
      return ops::rotate_normed(r, table(), c.norm(), state, a.x, w.final_norm, a.normed, a.rotated, tokens, last_only);
    ops::norm(r, c.norm(), state, a.x, w.final_norm, a.normed, tokens, last_only);
    if (!w.softmaxes) ops::rotate(r, table(), a.normed, a.rotated, last_only ? 1 : tokens);
  }
  // logits[i] = the logarithms of the probabilities that several softmaxes make of states[i] (config.h, Softmaxes).
  // states (rows, stride_of(width)) after the final norm, logits (rows, stride_of(vocab))
  void mix_softmaxes(uint32_t rows, const View& states, const View& logits) const {
    const uint64_t bytes = uint64_t{stride_of(c.width)} * 4, logit_bytes = uint64_t{stride_of(c.vocab)} * 4;
    const SoftmaxWeights& s = *w.softmaxes;
    const uint32_t count = c.softmaxes.count;
    for (uint32_t row = 0; row < rows; ++row) {
      const View h = states.part(row * bytes, bytes);
      const View mixed = logits.part(row * logit_bytes, uint64_t{c.vocab} * 4);
      ops::matmul(r, s.priors, state, h, a.softmax_priors, 1, Output::write);
      if (c.softmaxes.kind == SoftmaxKind::mixture)
        project_mixture(h);
      else
        project_adaptive(h);
      ops::log_sum(r, a.softmax_logits, s.bounds, a.softmax_sums, c.vocab, count);
      ops::mix(r, a.softmax_logits, s.bounds, a.softmax_sums, a.softmax_priors, mixed, c.vocab, count,
               c.softmaxes.kind == SoftmaxKind::adaptive ? ops::FirstPrior::sum : ops::FirstPrior::given);
    }
  }
  // Softmax k has the state tanh(W_k h + b_k), and all rows. The table is read once for all states.
  void project_mixture(const View& h) const {
    const uint32_t padded = std::bit_ceil(c.softmaxes.count);
    ops::matmul(r, w.softmaxes->states, state, h, a.softmax_rotated, 1, Output::write);
    ops::activate(r, ops::Activation::tanh, false, state, a.softmax_rotated, a.softmax_states,
                  c.softmaxes.count * c.width, 1);
    ops::rotate(r, table(), a.softmax_states, a.softmax_rotated, padded);
    ops::project(r, table(), a.softmax_rotated, a.softmax_logits, padded);
  }
  // The first softmax has the state h, softmax k the state W_k h, each the rows up to the next one's.
  void project_adaptive(const View& h) const {
    const uint64_t logit_bytes = uint64_t{stride_of(c.vocab)} * 4;
    r.copy(h, a.softmax_states.part(0, h.bytes));
    ops::matmul(r, w.softmaxes->states, state, h, a.softmax_states.part(h.bytes, c.softmaxes.own() * h.bytes), 1,
                Output::write);
    ops::rotate(r, table(), a.softmax_states, a.softmax_rotated, c.softmaxes.count);
    for (uint32_t k = 0; k < c.softmaxes.count; ++k) {
      const uint32_t first = c.softmaxes.first_row(k) / TILE_ROWS * TILE_ROWS;
      const ops::RowRange rows = {first, c.softmaxes.end_row(k, c.vocab) - first};
      ops::project(r, table(), a.softmax_rotated.part(k * h.bytes, h.bytes),
                   a.softmax_logits.part(k * logit_bytes, logit_bytes), 1, {&rows, 1});
    }
  }
  // The tokens' rows of the vocabulary table. Gathering leaves rows alone that the device does not have.
  void gather(const Matrix& embedding, const View& rows) const {
    if (pass.shards) r.copy(pass.shards.rows.part(0, uint64_t{tokens} * stride_of(c.width) * 4), rows);
    ops::gather(r, embedding, state, pass.step.history, rows, tokens, c.embedding_scale);
  }
  void matmul(const Matrix& weights, const ops::Input& x, const View& y, Output output = Output::write) const {
    ops::matmul(r, weights, state, x, y, tokens, output);
  }
  void norm(const View& x, const View& weight, const View& y, Output output = Output::write) const {
    ops::norm(r, c.norm(), state, x, weight, y, tokens, false, output);
  }
  void activate() const {
    ops::activate(r, c.layer_kind.activation, c.layer_kind.gated, state, a.gate_up, a.inner, c.ffn, tokens);
  }
  // True if what turns the embedding's rows back begins the first layer's norm: they are x then.
  bool embedding_begins_norm() const {
    return w.embedding && w.embedding->matrix().layout == Layout::planes && c.begins_norms() &&
           !c.layer_kind.embedding_norm && !c.has_position_table() && ops::can_fuse(r.device().plan(), tokens);
  }
  // True if the branch whose last product this is begins the norm that the next branch's first product ends.
  bool begins_norm(const Matrix& product) const {
    const Plan& plan = r.device().plan();
    if (!c.begins_norms()) return false;
    return c.layer_kind.norm_branches ? ops::can_fuse(plan, tokens) : ops::can_begin_norm(plan, product, tokens);
  }

  // What a branch reads: norm(x), or x if norms come after the branches. before: the last product of the branch that
  // has been added to x just now, if any.
  ops::Input branch_input(const View& weight, const Matrix* before) const {
    if (c.layer_kind.norm_after) return a.x;
    if (before && begins_norm(*before))
      return ops::BegunNorm{a.begun, c.norm(),
                            c.layer_kind.norm_branches ? 1 : ops::norm_sums(r.device().plan(), c.width)};
    norm(a.x, weight, a.normed);
    return a.normed;
  }

  // a.inner = the activated result of the feed-forward's first product.
  void expand(const Matrix& gate_up, const ops::Input& input) const {
    if (c.layer_kind.gated && ops::can_gate(r.device().plan(), gate_up, tokens))
      return ops::matmul_gated(r, gate_up, c.layer_kind.activation, state, input, a.inner, tokens);
    matmul(gate_up, input, a.gate_up);
    activate();
  }

  // x += weights input; if the branch has a norm of its own, x += norm(weights input). next: the weight of the norm
  // that x goes through then, if any.
  void add_branch(const Matrix& weights, const ops::Input& input, const View& own_norm, const View& next = {}) const {
    const ops::BeginNorm of_next = {next, a.begun};
    const ops::BeginNorm* const begin = next.buffer && begins_norm(weights) ? &of_next : nullptr;
    if (!own_norm.buffer) return ops::matmul(r, weights, state, input, a.x, tokens, Output::add, begin);
    matmul(weights, input, a.normed);
    ops::norm(r, c.norm(), state, a.normed, own_norm, a.x, tokens, false, Output::add, begin);
  }

  // x = norm(x), if norms come after the branches.
  void close_branch(const View& weight) const {
    if (c.layer_kind.norm_after) norm(a.x, weight, a.x);
  }

  // x += the weighted sum of the chosen experts' feed-forwards (Jiang et al. 2024, "Mixtral of Experts").
  void add_experts(const LayerWeights& l, const View& input) const {
    matmul(l.router, input, a.routing);
    ops::route(r, c.experts, state, a.routing, a.chosen, tokens);
    for (uint32_t rank = 0; rank < c.experts.used; ++rank) {
      ops::matmul_expert(r, l.gate_up, c.experts, rank, state, a.chosen, input, a.gate_up, tokens, Output::write);
      activate();
      ops::matmul_expert(r, l.down, c.experts, rank, state, a.chosen, a.inner, a.x, tokens, Output::add);
    }
  }

  // x += attention(norm(x)) to the output of an encoder: the keys and values are the input's, computed once
  // (encoder.h).
  void add_source(uint32_t index) const {
    const LayerWeights& l = w.layers[index];
    matmul(l.cross_q, branch_input(l.cross_norm, nullptr), a.q);
    ops::attend(r, c.heads, {.scale = c.attention_scale, .mask = ops::AttentionMask::source}, state, a.q,
                pass.source->layers[index], a.attended, tokens);
    add_branch(l.cross_out, a.attended, View());
    close_branch(l.cross_norm);
  }

  // Writes the tokens' keys and values to their cache and lets the tokens see what is there.
  void attend(uint32_t index) const {
    ops::Attention attention = c.attention(index);
    if (w.score_biases) attention.biases = {w.score_biases, c.buckets.farthest};
    const LayerPositions& positions = c.positions[index];
    const auto fused_rope = [&](const Attending& one) {
      return ops::FusedRope{c.pairs, positions.rotary_dim, one.rope_tables[positions.rope]};
    };
    const std::vector<Attending> all = attending(index);
    // Sessions of a batch may have caches of different types.
    const bool fused = std::ranges::all_of(all, [&](const Attending& one) {
      return ops::can_fuse_rope(r.device().plan(), c.heads, attention, fused_rope(one), one.cache.format,
                                pass.sessions().front().tokens);
    });
    if (!fused)
      for (const Attending& one : all)
        ops::rope(r, c.heads, c.pairs, positions.rotary_dim, one.state, one.a.qkv, one.rope_tables[positions.rope],
                  one.a.q, one.cache, one.tokens);
    for (const Attending& one : all) {
      const ops::FusedRope rope = fused_rope(one);
      ops::attend(r, c.heads, attention, one.state, fused ? one.a.qkv : one.a.q, one.cache, one.a.attended, one.tokens,
                  fused ? &rope : nullptr);
    }
  }
  // What attends at once: a session's tokens, or those of all sessions whose caches lie side by side.
  struct Attending {
    View state;
    const Activations& a;
    ops::CacheView cache;
    const std::vector<Buffer>& rope_tables;
    uint32_t tokens;
  };
  std::vector<Attending> attending(uint32_t index) const {
    std::vector<Attending> all;
    std::vector<bool> joined(pass.sessions().size());
    for (const Neighbours& some : pass.neighbours) {
      const Pass& first = pass.members[some.members.front()];
      ops::CacheView caches = first.cache.buffers->layers[index];
      caches.parts = first.cache.layers[index].parts;
      caches.member_tokens = first.tokens;
      const uint32_t count = static_cast<uint32_t>(some.members.size()) * first.tokens;
      all.push_back({some.list, a, caches, first.step.rope_tables, count});
      for (const uint32_t member : some.members) joined[member] = true;
    }
    for (size_t i = 0; i < joined.size(); ++i) {
      const Pass& one = pass.sessions()[i];
      if (!joined[i]) all.push_back({one.step.state, one.a, one.cache.layers[index], one.step.rope_tables, one.tokens});
    }
    return all;
  }

  // True if the projection can do the greedy argmax itself: full head, no bias, no log-probabilities.
  bool projection_picks(std::span<const Tail> tails) const {
    return !w.logit_bias && !w.softmaxes && std::ranges::all_of(tails, [](const Tail& tail) {
      return tail.kind == Tail::Kind::greedy && !tail.partial && !tail.logprobs;
    });
  }

  // What each session's logits need after the projection that they share.
  void finish_logits(std::span<const Tail> tails) const {
    for (size_t i = 0; i < tails.size(); ++i) {
      const Tail& tail = tails[i];
      const Pass& one = pass.sessions()[i];
      const StepBuffers& step = one.step;
      if (tail.partial)
        project_partly(r, w.output_table(), tail.steps, *tail.partial,
                       {one.a.rotated, step.state, step.params, step.token_flags}, one.a.logits);
      if (w.logit_bias) ops::add(r, w.logit_bias, one.a.logits, c.vocab);
      if (tail.mask) ops::add(r, *tail.mask, one.a.logits, c.vocab);
    }
  }

  // The next tokens, from the logits of each session's last one, or from `candidates` that the projection has left.
  void choose(std::span<const Tail> tails, uint32_t candidates = 0, bool drafted = false) const {
    const auto each = [&](const auto& record) {
      for (size_t i = 0; i < tails.size(); ++i) {
        const View lists = tails[i].partial ? View(tails[i].partial->lists) : View();
        record(pass.sessions()[i], tails[i], ops::Selectable{c.vocab, tails[i].partial ? &lists : nullptr});
      }
    };
    each([&](const Pass& one, const Tail& tail, const ops::Selectable& from) {
      if (tail.kind == Tail::Kind::sampled)
        ops::penalize(r, one.step.state, one.step.params, one.step.token_flags, one.a.logits, one.a.scores, from);
    });
    each([&](const Pass& one, const Tail& tail, const ops::Selectable& from) {
      if (tail.kind == Tail::Kind::sampled) ops::filter(r, one.step.state, one.step.params, one.a.scores, from);
    });
    each([&](const Pass& one, const Tail& tail, const ops::Selectable& from) {
      const View scores = tail.kind == Tail::Kind::sampled ? one.a.scores : one.a.logits;
      if (tail.chooses() && candidates == 0)
        ops::sample(r, one.step.state, one.step.params, scores, one.a.candidates, from);
    });
    each([&](const Pass& one, const Tail& tail, const ops::Selectable& from) {
      if (tail.chooses() && tail.logprobs)
        ops::logprobs(r, one.step.state, one.step.params, one.a.logits, one.a.candidates, one.step.logprobs, from);
    });
    each([&](const Pass& one, const Tail& tail, const ops::Selectable&) {
      const uint32_t picked = candidates ? candidates : ops::candidate_count(c.vocab);
      if (drafted)
        ops::advance_draft(r, one.step.views(one.a), picked);
      else
        ops::advance(r, one.step.views(one.a), tail.chooses() ? picked : 0, one.tokens);
    });
  }
};

}  // namespace

void record_embed(Recorder& r, const Pass& pass) {
  constexpr uint64_t kCopied = offsetof(abi::BatchMember, slot);
  for (const Neighbours& some : pass.neighbours)
    for (size_t i = 0; i < some.members.size(); ++i)
      r.copy(View(pass.members[some.members[i]].step.state).part(0, kCopied),
             some.list.part(i * sizeof(abi::BatchMember), kCopied));
  Network(r, pass).embed();
}

void record_layer(Recorder& r, const Pass& pass, uint32_t layer) { Network(r, pass).layer(layer); }

void record_tail(Recorder& r, const Pass& pass, std::span<const Tail> tails) { Network(r, pass).tail(tails); }

void record_shard_state(Recorder& r, const Pass& pass) { Network(r, pass).shard_state(); }

void record_own_rows(Recorder& r, const Pass& pass) { Network(r, pass).own_rows(); }

void record_shard_tail(Recorder& r, const Pass& pass, const Tail& tail) { Network(r, pass).shard_tail(tail); }

void record_check(Recorder& r, const Pass& pass, std::span<const Pass> by_token, std::span<const Tail> tails,
                  const View& masks) {
  Network(r, pass).check(by_token, tails, masks);
}

void record_score(Recorder& r, const Pass& pass, const View& group_logits, const View& nll,
                  const PartialHeadBuffers* masked) {
  Network(r, pass).score(group_logits, nll, masked);
}

}  // namespace weft
