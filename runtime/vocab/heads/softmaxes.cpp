#include "vocab/heads/softmaxes.h"

#include <bit>
#include <cstddef>

namespace weft {

using ops::Output;

SoftmaxHead::SoftmaxHead(Recorder& recorder, const Softmaxes& softmaxes, const SoftmaxWeights& weights,
                         const Matrix& table, const SoftmaxScratch& scratch, const View& state, uint32_t width,
                         uint32_t vocab)
    : r_(recorder),
      softmaxes_(softmaxes),
      weights_(weights),
      table_(table),
      scratch_(scratch),
      state_(state),
      width_(width),
      vocab_(vocab) {}

ops::MixViews SoftmaxHead::views(const View& logits) const {
  return {scratch_.logits,  weights_.bounds, scratch_.sums, scratch_.priors, logits.part(0, uint64_t{vocab_} * 4),
          scratch_.clusters};
}

void SoftmaxHead::priors(const View& h) const {
  ops::matmul(r_, weights_.priors, state_, h, scratch_.priors, 1, Output::write);
}

void SoftmaxHead::all(const View& h, const View& logits) const {
  const ops::MixViews views = this->views(logits);
  priors(h);
  if (!has_clusters()) return mixture(h, views);
  adaptive_states(h);
  for (uint32_t k = 0; k < softmaxes_.count; ++k) project(k);
  ops::log_sum(r_, scratch_.logits, views.bounds, scratch_.sums, vocab_, 0, softmaxes_.count);
  ops::mix(r_, views, vocab_, softmaxes_.count, ops::FirstPrior::sum);
}

void SoftmaxHead::winning(const View& h, const View& logits, const Choice& choice) const {
  if (!has_clusters()) return all(h, logits);
  const ops::MixViews views = this->views(logits);
  const uint32_t count = softmaxes_.count;
  const ops::ClusterViews clusters = {choice.state, choice.params, choice.token_flags, views.mixed,
                                      views.bounds, choice.scores, scratch_.clusters};
  priors(h);
  r_.fill(scratch_.clusters, 0);
  adaptive_states(h);
  project(0);
  ops::log_sum(r_, scratch_.logits, views.bounds, scratch_.sums, vocab_, 0, 1);
  for (const bool again : {false, true}) {
    ops::mix(r_, views, vocab_, count, ops::FirstPrior::sum, ops::Unread::bounded);
    ops::choose_clusters(r_, table_, clusters, count, again);
    for (uint32_t k = 1; k < count; ++k) {
      const View groups = scratch_.clusters.part(offsetof(abi::ClusterState, groups) + 2 * k * sizeof(abi::Indirect),
                                                 2 * sizeof(abi::Indirect));
      project(k, &groups);
    }
    ops::log_sum(r_, scratch_.logits, views.bounds, scratch_.sums, vocab_, 1, count - 1, &scratch_.clusters);
  }
  ops::mix(r_, views, vocab_, count, ops::FirstPrior::sum, ops::Unread::excluded);
}

void SoftmaxHead::count_all(const View& count) const {
  if (!has_clusters()) return;
  uint32_t rows = 0;
  for (uint32_t k = 0; k < softmaxes_.count; ++k) rows += rows_of(k).count;
  r_.fill(count, rows);
}

// Softmax k has the state tanh(W_k h + b_k), and all rows. The table is read once for all states.
void SoftmaxHead::mixture(const View& h, const ops::MixViews& views) const {
  const uint32_t count = softmaxes_.count, padded = std::bit_ceil(count);
  ops::matmul(r_, weights_.states, state_, h, scratch_.rotated, 1, Output::write);
  ops::activate(r_, ops::Activation::tanh, false, state_, scratch_.rotated, scratch_.states, count * width_, 1);
  ops::rotate(r_, table_, scratch_.states, scratch_.rotated, padded);
  ops::project(r_, table_, scratch_.rotated, scratch_.logits, padded);
  ops::log_sum(r_, scratch_.logits, views.bounds, scratch_.sums, vocab_, 0, count);
  ops::mix(r_, views, vocab_, count, ops::FirstPrior::given);
}

// The first softmax has the state h, softmax k the state W_k h, each the rows up to the next one's.
void SoftmaxHead::adaptive_states(const View& h) const {
  r_.copy(h, scratch_.states.part(0, h.bytes));
  ops::matmul(r_, weights_.states, state_, h, scratch_.states.part(h.bytes, softmaxes_.own() * h.bytes), 1,
              Output::write);
  ops::rotate(r_, table_, scratch_.states, scratch_.rotated, softmaxes_.count);
}

// Rows of softmax k, from the first one of their first tile on.
ops::RowRange SoftmaxHead::rows_of(uint32_t k) const {
  const uint32_t first = softmaxes_.first_row(k) / TILE_ROWS * TILE_ROWS;
  return {first, softmaxes_.end_row(k, vocab_) - first};
}

// Projects softmax k: always, or if the device wants it (ops::project_if).
void SoftmaxHead::project(uint32_t k, const View* groups) const {
  const uint64_t logit_bytes = uint64_t{stride_of(vocab_)} * 4, bytes = uint64_t{stride_of(width_)} * 4;
  const ops::RowRange rows = rows_of(k);
  const View x = scratch_.rotated.part(k * bytes, bytes), logits = scratch_.logits.part(k * logit_bytes, logit_bytes);
  if (groups)
    ops::project_if(r_, table_, x, logits, rows, *groups);
  else
    ops::project(r_, table_, x, logits, 1, {&rows, 1});
}

}  // namespace weft
