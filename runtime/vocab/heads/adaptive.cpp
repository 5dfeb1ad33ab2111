// Softmaxes over some rows each (Grave et al. 2017, "Efficient softmax approximation for GPUs").
// The first softmax has the state h, and one more logit for each of the others: its share. Softmax k has the state
// W_k h, and the rows up to the next one's. A choice reads only the rows of those that can win
// (shaders/choose_clusters.comp).
#include <cstddef>

#include "base/error.h"
#include "vocab/heads/softmaxes.h"

namespace weft {
namespace {

constexpr uint32_t kMostRows = 1u << 20;  // before the last softmax

class Adaptive : public SoftmaxHead {
 public:
  // cutoffs: the first rows of all but the first, ascending.
  Adaptive(const JsonObject& values, const HeadModel& model, std::vector<uint32_t> cutoffs)
      : SoftmaxHead(values, model, static_cast<uint32_t>(cutoffs.size()) + 1), cutoffs_(std::move(cutoffs)) {}

  std::string kind() const override { return "adaptive"; }
  uint32_t first_row(uint32_t k) const override { return k > 0 ? cutoffs_[k - 1] : 0; }
  uint32_t end_row(uint32_t k, uint32_t vocab) const override { return k + 1 < count_ ? cutoffs_[k] : vocab; }
  void check(uint32_t vocab, const std::string& file) const override;
  void record(const HeadRow& row) const override;
  void record_choice(const HeadRow& row, const HeadChoice& choice) const override;
  uint32_t rows_read(uint32_t vocab) const override;

 protected:
  uint32_t own() const override { return count_ - 1; }  // the first one's prior is in the logits
  uint64_t cluster_bytes() const override { return sizeof(abi::ClusterState); }

 private:
  void record_states(const HeadRow& row, const Scratch& scratch) const;
  ops::RowRange rows_of(uint32_t k, uint32_t vocab) const;
  void project(const HeadRow& row, const Scratch& scratch, uint32_t k, const View* groups = nullptr) const;

  const std::vector<uint32_t> cutoffs_;
};

void Adaptive::check(uint32_t vocab, const std::string& file) const {
  if (cutoffs_.back() >= vocab)
    throw Error(Code::bad_file,
                "the last softmax begins at row " + std::to_string(cutoffs_.back()) + ", the vocabulary has " +
                    std::to_string(vocab),
                file);
}

void Adaptive::record(const HeadRow& row) const {
  const Scratch scratch = this->scratch(row);
  const ops::MixViews views = this->views(row, scratch);
  record_priors(row, scratch);
  record_states(row, scratch);
  for (uint32_t k = 0; k < count_; ++k) project(row, scratch, k);
  ops::log_sum(row.recorder, scratch.logits, views.bounds, scratch.sums, row.vocab, 0, count_);
  ops::mix(row.recorder, views, row.vocab, count_, ops::FirstPrior::sum);
}

void Adaptive::record_choice(const HeadRow& row, const HeadChoice& choice) const {
  Recorder& r = row.recorder;
  const Scratch scratch = this->scratch(row);
  const ops::MixViews views = this->views(row, scratch);
  const ops::ClusterViews clusters = {choice.state, choice.params, choice.token_flags, views.mixed,
                                      views.bounds, choice.scores, scratch.clusters};
  record_priors(row, scratch);
  r.fill(scratch.clusters, 0);
  record_states(row, scratch);
  project(row, scratch, 0);
  ops::log_sum(r, scratch.logits, views.bounds, scratch.sums, row.vocab, 0, 1);
  for (const bool again : {false, true}) {
    ops::mix(r, views, row.vocab, count_, ops::FirstPrior::sum, ops::Unread::bounded);
    ops::choose_clusters(r, row.table, clusters, count_, again);
    for (uint32_t k = 1; k < count_; ++k) {
      const View groups = scratch.clusters.part(offsetof(abi::ClusterState, groups) + 2 * k * sizeof(abi::Indirect),
                                                2 * sizeof(abi::Indirect));
      project(row, scratch, k, &groups);
    }
    ops::log_sum(r, scratch.logits, views.bounds, scratch.sums, row.vocab, 1, count_ - 1, &scratch.clusters);
  }
  ops::mix(r, views, row.vocab, count_, ops::FirstPrior::sum, ops::Unread::excluded);
}

uint32_t Adaptive::rows_read(uint32_t vocab) const {
  uint32_t rows = 0;
  for (uint32_t k = 0; k < count_; ++k) rows += rows_of(k, vocab).count;
  return rows;
}

void Adaptive::record_states(const HeadRow& row, const Scratch& scratch) const {
  Recorder& r = row.recorder;
  const View& h = row.h;
  r.copy(h, scratch.states.part(0, h.bytes));
  ops::matmul(r, states(row), row.state, h, scratch.states.part(h.bytes, own() * h.bytes), 1, ops::Output::write);
  ops::rotate(r, row.table, scratch.states, scratch.rotated, count_);
}

// Rows of softmax k, from the first one of their first tile on.
ops::RowRange Adaptive::rows_of(uint32_t k, uint32_t vocab) const {
  const uint32_t first = first_row(k) / TILE_ROWS * TILE_ROWS;
  return {first, end_row(k, vocab) - first};
}

// Projects softmax k: always, or if the device wants it (ops::project_if).
void Adaptive::project(const HeadRow& row, const Scratch& scratch, uint32_t k, const View* groups) const {
  const uint64_t logit_bytes = uint64_t{stride_of(row.vocab)} * 4, bytes = uint64_t{stride_of(width_)} * 4;
  const ops::RowRange rows = rows_of(k, row.vocab);
  const View x = scratch.rotated.part(k * bytes, bytes), logits = scratch.logits.part(k * logit_bytes, logit_bytes);
  if (groups)
    ops::project_if(row.recorder, row.table, x, logits, rows, *groups);
  else
    ops::project(row.recorder, row.table, x, logits, 1, {&rows, 1});
}

}  // namespace

std::shared_ptr<const OutputHead> read_adaptive(const JsonObject& values, const std::string& prefix,
                                                const HeadModel& model) {
  const std::string key = prefix + "softmax.cutoffs";
  const std::string expected = "1 to " + std::to_string(MAX_SOFTMAXES - 1) + " ascending numbers above 0";
  if (!values.has(key)) throw Error(Code::bad_file, "the value '" + key + "' is missing", values.place());
  const JsonValue& given = values.at(key);
  if (!given.is_array() || given.empty() || given.size() >= MAX_SOFTMAXES) values.refuse(key, expected);
  std::vector<uint32_t> cutoffs;
  for (const JsonValue& cutoff : given.items()) {
    const uint64_t last = cutoffs.empty() ? 0 : cutoffs.back();
    if (!cutoff.is_number_unsigned() || cutoff.get<uint64_t>() <= last || cutoff.get<uint64_t>() > kMostRows)
      values.refuse(key, expected);
    cutoffs.push_back(cutoff.get<uint32_t>());
  }
  return std::make_shared<Adaptive>(values, model, std::move(cutoffs));
}

}  // namespace weft
