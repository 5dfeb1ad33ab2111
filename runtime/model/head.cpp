// The head, which follows a pass's layers: the final norm, the projection on the vocabulary table, and the choice of
// the next token.
#include <algorithm>
#include <cstddef>

#include "model/network.h"

namespace weft {

using ops::Output;

namespace {

struct Head : Network {
  using Network::Network;

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
    if (c.head)
      own_head(static_cast<uint32_t>(tails.size()), a.normed, a.logits, tails);
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
  void own_rows(const Tail& tail) const {
    if (!tail.partial) return ops::project(r, table(), a.rotated, a.logits, 1);
    const StepBuffers& step = pass.step;
    const View from = step.token_flags, to = tail.partial->token_flags;
    const uint32_t rows = table().rows;
    const auto copy = [&](uint32_t from_word, uint32_t to_word, uint32_t words) {
      r.copy(from.part(uint64_t{from_word} * 4, uint64_t{words} * 4),
             to.part(uint64_t{to_word} * 4, uint64_t{words} * 4));
    };
    copy(0, 0, TOKEN_FLAG_COUNTS(rows));
    copy(TOKEN_FLAG_COUNTS(c.vocab), TOKEN_FLAG_COUNTS(rows), rows);
    copy(TOKEN_FLAG_BIASES(c.vocab), TOKEN_FLAG_BIASES(rows), rows);
    project_partly(r, w.output_table(), tail.steps, *tail.partial, {a.rotated, step.state, step.params, to}, a.scores);
    ops::scatter_rows(r, step.state, tail.partial->lists, a.scores, a.logits, table().rows);
  }
  void shard_tail(const Tail& tail) const {
    r.copy(pass.shards.logits, a.logits.part(uint64_t{table().rows} * 4, pass.shards.logits.bytes));
    Tail joined = tail;  // the logits are those of all rows now
    joined.partial = nullptr;
    finish_logits({&joined, 1});
    choose({&joined, 1});
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
      const Head here(r, by_token[i]);
      if (pass.tree && i > 0) follow_outputs(static_cast<uint32_t>(i), picks, first.partial != nullptr);
      if (first.partial && first.steps.masked)
        r.copy(masks.part(i * mask_bytes, mask_bytes),
               View(first.partial->allowed_rows).part(uint64_t{c.vocab} * 4, mask_bytes));
      if (!picks) here.finish_logits(tails);
      here.choose(tails, picks ? ops::best_count(r.device().plan(), table()) : 0, true);
    }
    if (pass.tree) follow_states();
  }

  // The negative log-likelihoods of the pass's tokens, in groups as large as a product computes at once.
  void score(const View& group_logits, const View& nll, const PartialHeadBuffers* masked) const {
    const uint32_t group = pass.model.device->plan().block_tokens;
    const uint64_t group_bytes = uint64_t{group} * stride_of(c.width) * 4;
    const View allowed = masked ? View(masked->allowed_rows) : View();
    end_norm(false);
    for (uint32_t first = 0; first < tokens; first += group) {
      const uint64_t at = first / group * group_bytes;
      if (c.head)
        own_head(group, a.normed.part(at, group_bytes), group_logits);
      else
        ops::project(r, table(), a.rotated.part(at, group_bytes), group_logits, group);
      const uint64_t row_bytes = uint64_t{stride_of(c.vocab)} * 4;
      for (uint32_t row = 0; w.logit_bias && row < group; ++row)
        ops::add(r, w.logit_bias, group_logits.part(row * row_bytes, row_bytes), c.vocab);
      ops::nll(r, state, pass.step.history, group_logits, nll, c.vocab, first, group, masked ? &allowed : nullptr,
               c.logit_cap);
    }
    ops::advance(r, pass.step.views(a), 0, tokens);
  }

 private:
  // Row `depth` of what the next token is chosen from becomes that of the chosen row of this depth.
  void follow_outputs(uint32_t depth, bool picks, bool partial) const {
    const auto follow = [&](const View& rows, uint32_t words, uint32_t stride) {
      ops::follow_rows(r, state, rows, words, stride, depth, depth);
    };
    if (picks)
      follow(a.candidates, 2 * ops::best_count(r.device().plan(), table()), 2 * candidate_stride(pass.model));
    else if (partial)
      follow(a.rotated, stride_of(c.width), stride_of(c.width));
    else
      follow(a.logits, c.vocab, stride_of(c.vocab));
  }
  // The same of the final states, and of the keys and values.
  void follow_states() const {
    ops::follow_rows(r, state, a.normed, c.width, stride_of(c.width), 1, TREE_ROWS - 1);
    for (uint32_t layer = 0; layer < c.layers; ++layer) {
      const auto& own = std::get<AttentionState>(pass.context.layers[layer]);
      if (!own.shared) ops::follow_cache(r, c.shape_of(c.attention_of(layer)), state, own.cache);
    }
  }
  // The output table. An image encoder has none.
  const Matrix& table() const { return w.output_table().matrix(); }
  // a.normed = the final norm of x, and a.rotated the same in the table's basis, if that is projected.
  // last_only: of the pass's last token, in row 0.
  void end_norm(bool last_only) const {
    if (!c.head && c.norm().kind == ops::NormKind::rms)
      return ops::rotate_normed(r, table(), c.norm(), state, a.x, w.final_norm, a.normed, a.rotated, tokens, last_only);
    ops::norm(r, c.norm(), state, a.x, w.final_norm, a.normed, tokens, last_only);
    if (!c.head) ops::rotate(r, table(), a.normed, a.rotated, last_only ? 1 : tokens);
  }
  // logits[i] = what the model's head with weights of its own makes of states[i].
  // states (rows, stride_of(width)) after the final norm, logits (rows, stride_of(vocab))
  // tails: what is chosen from each row's logits, one for each; none: nothing, all of them are needed.
  void own_head(uint32_t rows, const View& states, const View& logits, std::span<const Tail> tails = {}) const {
    const uint64_t bytes = uint64_t{stride_of(c.width)} * 4, logit_bytes = uint64_t{stride_of(c.vocab)} * 4;
    for (uint32_t i = 0; i < rows; ++i) {
      const View h = states.part(i * bytes, bytes), to = logits.part(i * logit_bytes, logit_bytes);
      const HeadRow row = {r, *w.head, table(), c.vocab, a.head, state, h, to};
      if (tails.empty()) {
        c.head->record(row);
        continue;
      }
      const Pass& one = pass.sessions()[i];
      if (tails[i].chooses() && !tails[i].logprobs && !tails[i].mask) {
        c.head->record_choice(row, {one.step.state, one.step.params, one.step.token_flags, one.a.scores});
      } else {
        c.head->record(row);
        if (const uint32_t read = c.head->rows_read(c.vocab)) r.fill(exact_count(one), read);
      }
    }
  }
  static View exact_count(const Pass& one) {
    return View(one.step.state).part(offsetof(abi::StepState, head) + offsetof(abi::HeadState, exact_count), 4);
  }
  // True if the projection can do the greedy argmax itself: full head, no bias, no mask, no log-probabilities.
  bool projection_picks(std::span<const Tail> tails) const {
    return !w.logit_bias && !c.head && std::ranges::all_of(tails, [](const Tail& tail) {
      return tail.kind == Tail::Kind::greedy && !tail.partial && !tail.mask && !tail.logprobs;
    });
  }

  // Finishes each session's logits after the projection that they share.
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
      const View lists = tail.partial ? View(tail.partial->lists) : View();
      if (tail.timestamps)
        ops::timestamps(r, step.state, one.a.logits, one.a.scores, tail.timestamps,
                        {c.vocab, tail.partial ? &lists : nullptr});
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
        ops::logprobs(r, one.step.state, one.step.params, one.a.logits, one.a.candidates, one.a.scores,
                      one.step.logprobs, from);
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

void record_tail(Recorder& r, const Pass& pass, std::span<const Tail> tails) { Head(r, pass).tail(tails); }

void record_shard_state(Recorder& r, const Pass& pass) { Head(r, pass).shard_state(); }

void record_own_rows(Recorder& r, const Pass& pass, const Tail& tail) { Head(r, pass).own_rows(tail); }

void record_shard_tail(Recorder& r, const Pass& pass, const Tail& tail) { Head(r, pass).shard_tail(tail); }

void record_check(Recorder& r, const Pass& pass, std::span<const Pass> by_token, std::span<const Tail> tails,
                  const View& masks) {
  Head(r, pass).check(by_token, tails, masks);
}

void record_score(Recorder& r, const Pass& pass, const View& group_logits, const View& nll,
                  const PartialHeadBuffers* masked) {
  Head(r, pass).score(group_logits, nll, masked);
}

}  // namespace weft
