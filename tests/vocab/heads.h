// Shared by the tests of heads that read less: a table, its full and its partial projection over hidden states, and
// tables and states that are hard for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "ops/filter.h"
#include "support/op_inputs.h"
#include "vocab/heads/pruned.h"
#include "vocab/heads/vocab_head.h"

namespace weft::test {

struct Shape {
  uint32_t rows, cols;
};

// The choice of a token, as the device's parameters say it.
struct Choice {
  uint32_t rank = 1;
  float margin = 0, temperature = 0, penalty = 1;
  bool noise = false;
  uint32_t least_mode = HEAD_TWO_BITS;
  bool from_least = false;  // whatever the last token's bounds achieved
  float leading_spread = 1, rest_spread = 1;
  float soft_cap = 0;
  float presence = 0, frequency = 0;
  bool biased = false;
  float top_p = 1, min_p = 0;  // top_p below 1: with mass
  uint32_t seed = 5;
};

// A table, its full and its partial projection over hidden states.
class Heads {
 public:
  Heads(const Tuning& tuning, Format format, const Shape& shape, const std::vector<float>& values,
        std::shared_ptr<const Basis> basis = {})
      : device_(open_device(tuning)),
        shape_(shape),
        basis_(basis ? std::move(basis) : std::make_shared<const Basis>(shape.cols)) {
    const TensorView tensor = {"table", DType::f32, {shape.rows, shape.cols}, std::as_bytes(std::span(values))};
    Uploader uploader(device_);
    table_ =
        std::make_unique<Table>(device_, uploader, std::span(&tensor, 1), format, basis_, "table", [](uint64_t) {});
    buffers_ = std::make_unique<PartialHeadBuffers>(device_, *table_);
    state_ = share(device_, "state", std::vector<abi::StepState>(1));
    params_ = share(device_, "params", std::vector<abi::SampleParams>(1));
    std::vector<uint32_t> token_flags(TOKEN_FLAG_WORDS(shape.rows), 0x10000001u);
    for (uint32_t id = 0; id < shape.rows; ++id) {
      token_flags[TOKEN_FLAG_COUNTS(shape.rows) + id] = id % 5 == 0 ? id % 7 : 0;
      token_flags[TOKEN_FLAG_BIASES(shape.rows) + id] =
          std::bit_cast<uint32_t>(id % 3 == 0 ? static_cast<float>(id % 11) - 5 : 0);
    }
    token_flags_ = share(device_, "token flags", token_flags);
    logits_ = Buffer(device_, "logits", uint64_t{shape.rows} * 4, Memory::readback);
    scores_ = share(device_, "scores", std::vector<uint8_t>(ops::score_bytes(shape.rows)));
    candidates_ =
        Buffer(device_, "candidates", ops::candidate_count(shape.rows) * sizeof(abi::Candidate), Memory::readback);
    state_.as<abi::StepState>()->end = 7;
    state_.as<abi::StepState>()->head.positions = shape.rows;
  }

  std::vector<float> full(const std::vector<float>& x) {
    const Buffer in = upload(device_, "x", padded_x(x));
    run_op(device_, split_product("project", device_->plan()),
           [&](Recorder& r) { ops::project(r, table_->matrix(), in, logits_, 1); });
    return {logits_.as<float>(), logits_.as<float>() + shape_.rows};
  }

  struct Listed {
    std::vector<uint32_t> ids;
    std::vector<float> logits;
    std::vector<float> bounds;  // of those that were refined, what they had to reach
    abi::HeadState head;
  };
  Listed partial(const std::vector<float>& x, const Choice& choice, const PartialHeadSteps& shapes) {
    write(choice);
    const Buffer in = upload(device_, "x", padded_x(x));
    run_op(device_, kernels(shapes), [&](Recorder& r) {
      project_partly(r, *table_, shapes, *buffers_, {in, state_, params_, token_flags_}, logits_);
    });
    Listed listed;
    listed.head = state_.as<abi::StepState>()->head;
    const std::vector<uint32_t> words = download_as<uint32_t>(device_, buffers_->lists);
    const uint32_t count = listed.head.exact_count;
    EXPECT_LE(count, shape_.rows);
    listed.ids.assign(words.begin() + LIST_IDS(shape_.rows), words.begin() + LIST_IDS(shape_.rows) + count);
    listed.logits.assign(logits_.as<float>(), logits_.as<float>() + count);
    for (uint32_t i = 0; i < shape_.rows; ++i)
      listed.bounds.push_back(std::bit_cast<float>(words[LIST_BOUNDS(shape_.rows) + i]));
    return listed;
  }

  // The token drawn, from the whole table without steps. NO_ROW: no logit is finite.
  uint32_t drawn(const std::vector<float>& x, const Choice& choice, const PartialHeadSteps* steps) {
    write(choice);
    const Buffer in = upload(device_, "x", padded_x(x));
    const View lists = buffers_->lists;
    const ops::Selectable from = {shape_.rows, steps ? &lists : nullptr};
    const std::string choosing = ", penalize, narrow, " + reduction("filter", device_->plan()) + ", sample";
    run_op(device_, (steps ? kernels(*steps) : split_product("project", device_->plan())) + choosing, [&](Recorder& r) {
      if (steps)
        project_partly(r, *table_, *steps, *buffers_, {in, state_, params_, token_flags_}, logits_);
      else
        ops::project(r, table_->matrix(), in, logits_, 1);
      ops::penalize(r, state_, params_, token_flags_, logits_, scores_, from);
      ops::filter(r, state_, params_, scores_, from);
      ops::sample(r, state_, params_, scores_, candidates_, from);
    });
    abi::Candidate best = {-3.4e38f, NO_ROW};
    for (uint32_t i = 0; i < ops::candidate_count(shape_.rows); ++i) {
      const abi::Candidate& next = candidates_.as<abi::Candidate>()[i];
      if (next.id != NO_ROW && (next.score > best.score || (next.score == best.score && next.id < best.id)))
        best = next;
    }
    return best.id;
  }
  const abi::HeadState& head() const { return state_.as<abi::StepState>()->head; }  // of the last partial() or drawn()

  void choose_from(const std::vector<uint32_t>& ids) {
    std::copy(ids.begin(), ids.end(), buffers_->allowed_rows.as<uint32_t>());
    state_.as<abi::StepState>()->head.positions = static_cast<uint32_t>(ids.size());
  }
  void mask(const std::set<uint32_t>& ids) {
    uint32_t* bits = buffers_->allowed_rows.as<uint32_t>() + shape_.rows;
    std::fill(bits, bits + (shape_.rows + 31) / 32, 0u);
    for (const uint32_t id : ids) bits[id / 32] |= 1u << (id % 32);
  }
  const Basis& basis() const { return *basis_; }
  Format format() const { return table_->matrix().format; }
  uint32_t mode() const { return state_.as<abi::StepState>()->head.mode; }  // of the last partial()
  // The score of a token in the choice.
  float score(const Choice& choice, float logit, uint32_t id) const {
    const uint32_t* const token_flags = token_flags_.as<uint32_t>();
    if (choice.soft_cap > 0) logit = choice.soft_cap * std::tanh(logit / choice.soft_cap);
    if (token_flags[id / 32] >> (id % 32) & 1) logit = logit > 0 ? logit / choice.penalty : logit * choice.penalty;
    const uint32_t count = token_flags[TOKEN_FLAG_COUNTS(shape_.rows) + id];
    if (choice.biased) logit += std::bit_cast<float>(token_flags[TOKEN_FLAG_BIASES(shape_.rows) + id]);
    if (count > 0) logit -= choice.presence + choice.frequency * static_cast<float>(count);
    return choice.temperature > 0 ? logit * (1 / choice.temperature) : logit;
  }
  double bytes(const Listed& listed) const {
    const abi::HeadState& h = listed.head;
    return RowsRead{h.mode,
                    shape_.rows,
                    {h.refine_counts[0], h.refine_counts[1], h.refine_counts[2]},
                    h.exact_count + h.leader_count}
        .bytes(table_->matrix());
  }

 private:
  void write(const Choice& choice) {
    abi::SampleParams& params = *params_.as<abi::SampleParams>();
    params = {};
    params.inverse_temperature = choice.temperature > 0 ? 1 / choice.temperature : 0;
    params.repeat_penalty = choice.penalty;
    params.cut_rank = choice.rank;
    params.cut_margin = choice.margin;
    params.cut_noise = choice.noise ? 1 : 0;
    params.least_mode = choice.least_mode;
    params.leading_spread = choice.leading_spread;
    params.rest_spread = choice.rest_spread;
    params.soft_cap = choice.soft_cap;
    params.presence_penalty = choice.presence;
    params.frequency_penalty = choice.frequency;
    params.biased = choice.biased ? 1 : 0;
    params.most_added = choice.frequency < 0 ? 3.4e38f : (choice.biased ? 5 : 0) + std::max(-choice.presence, 0.0f);
    params.seed_low = choice.seed;
    params.top_p = choice.top_p;
    params.cut_mass = choice.top_p < 1 ? 1 : 0;
    params.typical_p = 1;
    params.log_min_p = choice.min_p > 0 ? std::log(choice.min_p) : -1e30f;
    if (choice.from_least)
      state_.as<abi::StepState>()->head = {.positions = state_.as<abi::StepState>()->head.positions};
  }
  std::string kernels(const PartialHeadSteps& steps) const {
    const Plan& plan = device_->plan();
    std::string names = reduction("quantise", plan) + ", ";
    if (steps.estimates)
      names += product("estimate", plan) + ", " + product("leaders", plan) + ", " +
               split_product("project_rows", plan) + ", cut, ";
    names += product("select", plan);
    if (steps.estimates) names += ", " + product("refine", plan);
    if (!steps.estimates) names += ", " + split_product("project_rows", plan);
    if (steps.nucleus) names += ", " + reduction("decide", plan);
    return names;
  }
  // In the table's basis.
  std::vector<float> padded_x(const std::vector<float>& x) const {
    std::vector<float> all(stride_of(shape_.cols), 0.0f);
    basis_->rotate_state(x, all);
    return all;
  }

  std::shared_ptr<Device> device_;
  Shape shape_;
  std::shared_ptr<const Basis> basis_;
  std::unique_ptr<Table> table_;
  std::unique_ptr<PartialHeadBuffers> buffers_;
  Buffer state_, params_, token_flags_, logits_, scores_, candidates_;
};

// One that nothing is known for, or one of scaled columns in another order and hidden states far from 0.
inline std::shared_ptr<const Basis> make_basis(uint32_t cols, bool known, Random& random) {
  if (!known) return std::make_shared<const Basis>(cols);
  std::vector<uint32_t> order(cols);
  for (uint32_t i = 0; i < cols; ++i) order[i] = (i * 5 + 3) % cols;
  if (cols % 5 == 0) std::iota(order.rbegin(), order.rend(), 0u);
  const std::vector<float> mean = random.normals(cols, 4);
  std::vector<float> scales(cols);
  for (float& scale : scales) scale = std::exp(random.uniform(-1, 1));
  return std::make_shared<const Basis>(cols, order, mean, scales);
}

// The rows, or states, that the basis turns into these.
enum class Kind { rows, states };
inline void turn_back(std::span<float> values, const Basis& basis, Kind kind) {
  const reference::TableBasis turn(basis.words());
  for (size_t at = 0; at < values.size(); at += basis.width()) {
    std::vector<double> row(basis.cols());
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(at), basis.width(), row.begin());
    std::ranges::transform(kind == Kind::rows ? turn.row_back(row) : turn.state_back(row),
                           values.begin() + static_cast<ptrdiff_t>(at),
                           [](double value) { return static_cast<float>(value); });
  }
}

// Tables that are hard in different ways.
inline std::vector<float> make_table(const std::string& kind, const Shape& shape, Random& random, const Basis& basis) {
  std::vector<float> values = random.normals(size_t{shape.rows} * shape.cols, 0.05f);
  const auto row = [&](uint32_t r) { return std::span(values).subspan(size_t{r} * shape.cols, shape.cols); };
  if (kind == "clustered") {
    for (uint32_t r = 0; r < shape.rows; ++r)
      for (uint32_t c = 0; c < shape.cols; ++c) row(r)[c] = row(r % 3)[c] + (r < 3 ? 0 : 0.02f * row(r)[c]);
  } else if (kind == "duplicates") {
    for (uint32_t r = 1; r < shape.rows; r += 2) std::ranges::copy(row(r - 1), row(r).begin());
  } else if (kind == "zeros") {
    for (uint32_t r = 0; r < shape.rows; ++r)
      if (r % 4 != 1) std::ranges::fill(row(r), 0.0f);
  } else if (kind == "huge") {
    for (uint32_t r = 0; r < shape.rows; ++r)
      for (float& value : row(r)) value *= r % 7 == 0 ? 1e5f : r % 7 == 1 ? 1e-5f : 1.0f;
  } else if (kind == "weak first plane") {  // values just below and above the borders of plane 0
    for (uint32_t r = 0; r < shape.rows; ++r)
      for (uint32_t c = 0; c < shape.cols; ++c)
        row(r)[c] = (c % BLOCK == 0        ? 127.0f
                     : (random.word() & 1) ? 63.0f
                     : (random.word() & 1) ? 0.0f
                                           : -1.0f) *
                    0.001f;
    turn_back(values, basis, Kind::rows);
  }
  return values;
}

inline std::vector<float> make_x(const std::string& kind, const Shape& shape, const std::vector<float>& table,
                                 Random& random, const Basis& basis) {
  const std::vector<double> mean =
      reference::TableBasis(basis.words()).state_back(doubles({basis.mean().begin(), basis.mean().end()}));
  std::vector<float> x = random.normals(shape.cols);
  const uint32_t target = random.below(shape.rows);
  if (kind == "towards a row")
    for (uint32_t c = 0; c < shape.cols; ++c) x[c] = 0.9f * x[c] + 8 * table[size_t{target} * shape.cols + c];
  if (kind == "around the mean")
    for (uint32_t c = 0; c < shape.cols; ++c) x[c] = 0.3f * x[c] + static_cast<float>(mean[c]);
  if (kind == "one huge") x[target % shape.cols] = 1e9f;
  if (kind == "outliers")
    for (uint32_t c = 0; c < shape.cols; c += 17) x[c] *= 60;
  if (kind == "zero") std::ranges::fill(x, 0.0f);
  if (kind == "tiny")
    for (float& value : x) value *= 1e-20f;
  if (kind == "large")
    for (float& value : x) value *= 1e8f;
  return x;
}
// The estimates whose bounds are proven where both spreads are 1.
inline std::vector<uint32_t> proven_modes(Format format) {
  if (format == Format::q4) return {HEAD_SIGNS, HEAD_TWO_BITS};
  return {HEAD_SIGNS, HEAD_TWO_BITS, HEAD_FOUR_BITS};
}

inline const char* const kTables[] = {"random", "clustered", "duplicates", "zeros", "huge", "weak first plane"};
inline const char* const kStates[] = {"random", "towards a row", "around the mean", "outliers", "one huge", "zero",
                                      "tiny",   "large"};

}  // namespace weft::test
