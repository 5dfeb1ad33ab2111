// The certified projection against the full one, over tables made to break bounds. What is compared is exact: every row
// that could be chosen is listed, and its logit has the full projection's very bits.
#include "vocab/certified.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "support/op_inputs.h"
#include "vocab/vocab_head.h"

namespace weft::test {
namespace {

struct Shape {
  uint32_t rows, cols;
};

// What a token is chosen by, as the device's parameters say it.
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
    table_ = std::make_unique<Table>(device_, uploader, tensor, format, basis_, "table", [](uint64_t) {});
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
    params.seed_low = 5;
    if (choice.from_least)
      state_.as<abi::StepState>()->head = {.positions = state_.as<abi::StepState>()->head.positions};
    const Buffer in = upload(device_, "x", padded_x(x));
    const Plan& plan = device_->plan();
    std::string expected = reduction("quantise", plan) + ", ";
    if (shapes.estimates)
      expected += product("estimate", plan) + ", " + product("leaders", plan) + ", " +
                  split_product("project_rows", plan) + ", cut, ";
    expected += product("select", plan);
    if (shapes.estimates) expected += ", " + product("refine", plan);
    if (!shapes.estimates) expected += ", " + split_product("project_rows", plan);
    run_op(device_, expected, [&](Recorder& r) {
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
  // What the token counts when one is chosen.
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
  Buffer state_, params_, token_flags_, logits_;
};

// Every row that must be there is, with the same bits, once. allowed: the rows that may be chosen.
void expect_certified(Heads& heads, const std::vector<float>& x, const Choice& choice, const PartialHeadSteps& shapes,
                      const std::set<uint32_t>* allowed = nullptr) {
  const std::vector<float> full = heads.full(x);
  const Heads::Listed listed = heads.partial(x, choice, shapes);
  std::set<uint32_t> ids;
  for (size_t i = 0; i < listed.ids.size(); ++i) {
    const uint32_t id = listed.ids[i];
    ASSERT_LT(id, full.size());
    ASSERT_TRUE(ids.insert(id).second) << "row " << id << " twice";
    ASSERT_TRUE(!allowed || allowed->contains(id)) << "row " << id << " may not be chosen";
    ASSERT_EQ(std::bit_cast<uint32_t>(listed.logits[i]), std::bit_cast<uint32_t>(full[id])) << "row " << id;
  }
  std::vector<std::pair<float, uint32_t>> scores;
  for (uint32_t id = 0; id < full.size(); ++id)
    if (std::isfinite(full[id]) && (!allowed || allowed->contains(id)))
      scores.emplace_back(heads.score(choice, full[id], id), id);
  if (scores.empty()) return;
  std::sort(scores.rbegin(), scores.rend());
  const float cut = scores[std::min<size_t>(choice.rank, scores.size()) - 1].first - choice.margin;
  if (choice.noise) {  // any of the best might win: those at least whose score is the best by more than noise can be
    ASSERT_TRUE(ids.contains(scores[0].second) || !listed.ids.empty());
    return;
  }
  for (const auto& [value, id] : scores) {
    if (value < cut) break;
    ASSERT_TRUE(ids.contains(id)) << "row " << id << " of score " << value << " could be chosen, the cut is " << cut;
  }
}

// One that nothing is known for, or one of scaled columns in another order and hidden states far from 0.
std::shared_ptr<const Basis> make_basis(uint32_t cols, bool known, Random& random) {
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
void turn_back(std::span<float> values, const Basis& basis, Kind kind) {
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
std::vector<float> make_table(const std::string& kind, const Shape& shape, Random& random, const Basis& basis) {
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

std::vector<float> make_x(const std::string& kind, const Shape& shape, const std::vector<float>& table, Random& random,
                          const Basis& basis) {
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

class CertifiedTest : public GpuTest {};

// The estimates whose bounds are proven where both spreads are 1.
std::vector<uint32_t> proven_modes(Format format) {
  if (format == Format::q4) return {HEAD_SIGNS, HEAD_TWO_BITS};
  return {HEAD_SIGNS, HEAD_TWO_BITS, HEAD_FOUR_BITS};
}

const char* const kTables[] = {"random", "clustered", "duplicates", "zeros", "huge", "weak first plane"};
const char* const kStates[] = {"random", "towards a row", "around the mean", "outliers", "one huge", "zero",
                               "tiny",   "large"};

// No logit is above its bound, whichever part of the row it is from.
TEST_F(CertifiedTest, BoundsAreAboveTheLogits) {
  uint32_t seed = 100;
  for (const Tuning& tuning : {Tuning{}, Tuning{.plain = true}})
    for (const Format format : kFormats)
      for (const char* kind : kTables)
        for (const Shape& shape : {Shape{300, 128}, Shape{65, 33}, Shape{1, 32}, Shape{70, 1120}}) {
          Random random(seed++);
          const auto basis = make_basis(shape.cols, (seed + static_cast<uint32_t>(format)) % 2 == 0, random);
          const std::vector<float> table = make_table(kind, shape, random, *basis);
          Heads heads(tuning, format, shape, table, basis);
          for (const char* state : kStates) {
            const std::vector<float> x = make_x(state, shape, table, random, *basis), full = heads.full(x);
            for (const uint32_t mode : proven_modes(format)) {
              SCOPED_TRACE(tuning.name() + " " + name(format) + " " + kind + " " + std::to_string(shape.rows) + " x " +
                           std::to_string(shape.cols) + ", x " + state + ", mode " + std::to_string(mode));
              // A cut that nothing reaches: every bound stays where it is.
              const Choice choice = {.margin = -1e37f, .least_mode = mode, .from_least = true};
              const Heads::Listed listed = heads.partial(x, choice, {.estimates = true});
              ASSERT_EQ(listed.head.mode, mode);
              if (std::string(kind) != "huge") {  // some of whose rows keep no finite norm
                ASSERT_EQ(listed.head.exact_count + listed.head.refine_count, 0u);
              }
              for (uint32_t r = 0; r < shape.rows; ++r) ASSERT_GE(listed.bounds[r], full[r]) << "row " << r;
            }
          }
        }
}

// Nor far above: how far is what the head's cost comes from.
TEST_F(CertifiedTest, BoundsAreNearTheLogits) {
  const Shape shape = {2000, 32 + 512};
  for (const Format format : kFormats) {
    Random random(7);
    const auto basis = make_basis(shape.cols, false, random);
    const std::vector<float> table = make_table("random", shape, random, *basis);
    Heads heads({}, format, shape, table, basis);
    const std::vector<float> x = random.normals(shape.cols), full = heads.full(x);
    // Norms are 0.05 * sqrt(512) and sqrt(512). What a sign knows of normal numbers is at an angle to them of cosine
    // sqrt(2 / pi), which leaves 0.756 of the norm at a right angle.
    const double most[] = {0, 0.85, 0.5, format == Format::q4 ? 0.0 : 0.15};
    for (const uint32_t mode : proven_modes(format)) {
      const Choice choice = {.margin = -1e37f, .least_mode = mode, .from_least = true};
      const Heads::Listed listed = heads.partial(x, choice, {.estimates = true});
      double mean = 0;
      for (uint32_t r = 0; r < shape.rows; ++r) mean += (listed.bounds[r] - full[r]) / shape.rows;
      EXPECT_LT(mean, most[mode] * 0.05 * 512) << name(format) << " mode " << mode;
      EXPECT_GT(mean, most[mode] * 0.05 * 512 * 0.4) << name(format) << " mode " << mode;
    }
  }
}

// Rows that plane 0 guesses well and plane 1 does not: their best row is the one that a bound by plane 0's norm loses.
TEST_F(CertifiedTest, PlaneOneMayGuessWorse) {
  for (const Format format : kFormats)
    for (const uint32_t cols : {64u, 96u, 128u, 640u})
      for (const float sign : {1.0f, -1.0f}) {
        SCOPED_TRACE(std::string(name(format)) + " " + std::to_string(cols) + " columns, sign " + std::to_string(sign));
        Random random(cols);
        const Shape shape = {300, cols};
        const auto basis = make_basis(cols, sign > 0, random);
        std::vector<float> table = random.normals(size_t{shape.rows} * cols, 0.002f), x(cols, sign);
        for (uint32_t c = 0; c < cols; ++c)
          table[size_t{7} * cols + c] = sign * (c % BLOCK == 0 ? 0.127f : sign > 0 ? 0.031f : 0.033f);
        turn_back(table, *basis, Kind::rows);
        turn_back(x, *basis, Kind::states);
        Heads heads({}, format, shape, table, basis);
        for (const uint32_t mode : proven_modes(format))
          for (const Choice& choice : {Choice{.least_mode = mode, .from_least = true},
                                       Choice{.rank = 40, .temperature = 0.7f, .least_mode = mode, .from_least = true}})
            expect_certified(heads, x, choice, {.estimates = true});
      }
}

// Every state takes three of the eight choices, and they go round: all of them would take ten minutes on a slow driver.
TEST_F(CertifiedTest, ListsEveryRowThatCouldBeChosen) {
  const Choice choices[] = {
      Choice{},
      Choice{.rank = 40, .temperature = 0.7f},
      Choice{.margin = 3, .temperature = 0.5f, .penalty = 1.3f},
      Choice{.rank = 3, .penalty = 0.8f},
      Choice{.temperature = 1, .noise = true},
      Choice{.rank = 2, .penalty = 1.2f, .soft_cap = 5},
      Choice{.rank = 3, .presence = 1.5f, .frequency = 0.5f, .biased = true},
      Choice{.temperature = 0.8f, .penalty = 1.3f, .soft_cap = 5, .frequency = -1, .biased = true},
  };
  uint32_t seed = 1, turn = 0;
  for (const Tuning& tuning : {Tuning{}, Tuning{.split = 2, .row_tiles = 1, .texel_products = false}})
    for (const Format format : {Format::q8, Format::q4, Format::f16})
      for (const char* kind : kTables)
        for (const Shape& shape : {Shape{700, 96}, Shape{1500, 128}, Shape{65, 33}, Shape{3, 640}, Shape{300, 288}}) {
          Random random(seed++);
          if (tuning.split == 2 && format != Format::q8 && std::string(kind) != "random") continue;  // for time's sake
          const auto basis = make_basis(shape.cols, (seed + static_cast<uint32_t>(format)) % 2 == 0, random);
          const std::vector<float> table = make_table(kind, shape, random, *basis);
          Heads heads(tuning, format, shape, table, basis);
          const std::vector<uint32_t> modes = proven_modes(format);
          for (const char* state : kStates) {
            SCOPED_TRACE(tuning.name() + " " + name(format) + " " + kind + " " + std::to_string(shape.rows) + " x " +
                         std::to_string(shape.cols) + ", x " + state);
            for (int i = 0; i < 3; ++i, ++turn) {
              Choice choice = choices[turn % std::size(choices)];
              choice.least_mode = modes[(turn + turn / std::size(choices)) % modes.size()];
              choice.from_least = turn % 5 != 0;  // else it goes on from what the last token's bounds achieved
              expect_certified(heads, make_x(state, shape, table, random, *basis), choice, {.estimates = true});
              if (HasFatalFailure()) return;
            }
          }
        }
}

// Hidden states one after the other: the device changes its mode along the way, the answer stays.
TEST_F(CertifiedTest, ModesFollowWhatBoundsAchieve) {
  const Shape shape = {2000, 640};
  Random random(9);
  std::set<uint32_t> modes;
  for (const uint32_t least : {uint32_t{HEAD_SIGNS}, uint32_t{HEAD_TWO_BITS}})
    for (const char* kind : {"random", "clustered"}) {
      const auto basis = make_basis(shape.cols, false, random);
      const std::vector<float> table = make_table(kind, shape, random, *basis);
      Heads heads({}, Format::q8, shape, table, basis);
      for (uint32_t step = 0; step < 50; ++step) {
        const std::vector<float> x =
            make_x(step / 25 % 2 == 0 ? "random" : "towards a row", shape, table, random, *basis);
        expect_certified(heads, x, {.least_mode = least}, {.estimates = true});
        ASSERT_FALSE(HasFatalFailure()) << kind << " step " << step;
        ASSERT_GE(heads.mode(), least);
        modes.insert(heads.mode());
      }
    }
  EXPECT_EQ(modes, (std::set<uint32_t>{HEAD_SIGNS, HEAD_TWO_BITS, HEAD_FOUR_BITS, HEAD_ALL}));
}

TEST_F(CertifiedTest, ListedAndMaskedRowsOnly) {
  const Shape shape = {1000, 160};
  Random random(10);
  for (const Format format : {Format::q8, Format::q4, Format::f16}) {
    const auto basis = make_basis(shape.cols, format != Format::q4, random);
    const std::vector<float> table = make_table("random", shape, random, *basis);
    Heads heads({}, format, shape, table, basis);
    for (const uint32_t every : {1u, 3u, 50u, 1000u})
      for (const bool estimates : {false, true})
        for (const char* way : {"listed", "masked", "both"}) {
          SCOPED_TRACE(std::string(name(format)) + " " + way + " every " + std::to_string(every) +
                       (estimates ? " certified" : " full"));
          std::set<uint32_t> allowed, listed, masked;
          for (uint32_t id = 0; id < shape.rows; id += every) listed.insert(id);
          for (uint32_t id = 0; id < shape.rows; id += 2) masked.insert(id);
          if (std::string(way) == "listed") allowed = listed;
          if (std::string(way) == "masked") allowed = masked;
          if (std::string(way) == "both")
            std::ranges::set_intersection(listed, masked, std::inserter(allowed, allowed.end()));
          PartialHeadSteps shapes = {
              .estimates = estimates, .listed = std::string(way) != "masked", .masked = std::string(way) != "listed"};
          heads.choose_from({listed.begin(), listed.end()});
          if (!shapes.listed) heads.choose_from(std::vector<uint32_t>(shape.rows));
          heads.mask(masked);
          for (const char* state : {"random", "towards a row"})
            for (const Choice& choice : {Choice{}, Choice{.rank = 5, .temperature = 1},
                                         Choice{.rank = 2, .least_mode = HEAD_SIGNS, .from_least = true}}) {
              expect_certified(heads, make_x(state, shape, table, random, *basis), choice, shapes, &allowed);
              if (HasFatalFailure()) return;
            }
        }
  }
}

TEST_F(CertifiedTest, WithoutEstimatesExactlyTheListIsComputed) {
  const Shape shape = {1000, 160};
  Random random(11);
  const auto basis = make_basis(shape.cols, true, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  Heads heads({}, Format::q8, shape, table, basis);
  heads.choose_from({7, 993});
  const Heads::Listed listed =
      heads.partial(make_x("random", shape, table, random, *basis), {.rank = 0}, {.listed = true});
  EXPECT_EQ(std::set<uint32_t>(listed.ids.begin(), listed.ids.end()), (std::set<uint32_t>{7, 993}));
  EXPECT_EQ(listed.head.exact_count, 2u);
  EXPECT_EQ(listed.head.leader_count, 0u);
}

TEST_F(CertifiedTest, ReadsLessWhereARowStandsOut) {
  const Shape shape = {8000, 256};
  Random random(12);
  const auto basis = make_basis(shape.cols, false, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  Heads heads({}, Format::q8, shape, table, basis);
  const double whole = static_cast<double>(shape.rows) * plane_bytes(Format::q8, shape.cols).whole;
  for (int i = 0; i < 5; ++i) {
    std::vector<float> x = random.normals(shape.cols);
    const uint32_t target = random.below(shape.rows);
    // |row| is 0.8, so the row's share of x has a norm of 16 like the rest: cosine 0.7.
    for (uint32_t c = 0; c < shape.cols; ++c) x[c] += 20 * table[size_t{target} * shape.cols + c];
    const Heads::Listed listed = heads.partial(x, {}, {.estimates = true});
    EXPECT_LT(heads.bytes(listed), 0.4 * whole);
    EXPECT_LT(listed.head.exact_count, 50u);
  }
}

TEST_F(CertifiedTest, HiddenStatesThatAreNotFiniteComputeEveryRow) {
  const Shape shape = {300, 64};
  Random random(13);
  const auto basis = make_basis(shape.cols, true, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  Heads heads({}, Format::q8, shape, table, basis);
  for (const float bad : {NAN, INFINITY, 3e38f}) {
    std::vector<float> x = random.normals(shape.cols);
    x[40] = bad;
    EXPECT_EQ(heads.partial(x, {}, {.estimates = true}).head.exact_count, shape.rows) << bad;
  }
}

// Spreads below 1 read less, and what they promise holds: of so many tokens none is another one.
TEST_F(CertifiedTest, SpreadsReadLessAndKeepTheirPromise) {
  const Shape shape = {4000, 32 + 512};
  Random random(14);
  const auto basis = make_basis(shape.cols, false, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  for (const Format format : kFormats) {
    Heads heads({}, format, shape, table, basis);
    const float sure = static_cast<float>(sure_spread(1e-9 / (64 * ESTIMATES), 512)), deviations = 1 / std::sqrt(512.f);
    const Choice proven = {.from_least = true},
                 likely = {.least_mode = HEAD_SIGNS, .from_least = true, .rest_spread = sure},
                 guessed = {.least_mode = HEAD_LEADING,
                            .from_least = true,
                            .leading_spread = 7 * deviations,
                            .rest_spread = 7 * deviations},
                 careless = {.rank = 100, .least_mode = HEAD_SIGNS, .from_least = true, .rest_spread = -2 * deviations};
    double bytes[3] = {};
    uint32_t missed = 0;
    for (int i = 0; i < 20; ++i) {
      std::vector<float> x = make_x("towards a row", shape, table, random, *basis);
      for (uint32_t c = 0; c < LEADING; ++c) x[c] *= 8;  // as an order of the columns leaves it
      const std::vector<float> full = heads.full(x);
      const uint32_t best = static_cast<uint32_t>(std::ranges::max_element(full) - full.begin());
      size_t place = 0;
      for (const Choice& choice : {proven, likely, guessed}) {
        const Heads::Listed listed = heads.partial(x, choice, {.estimates = true});
        bytes[place++] += heads.bytes(listed);
        // A guess by the leading columns alone promises nothing.
        EXPECT_TRUE(place == 3 || std::ranges::find(listed.ids, best) != listed.ids.end())
            << name(format) << " " << place;
        for (size_t k = 0; k < listed.ids.size(); ++k) EXPECT_EQ(listed.logits[k], full[listed.ids[k]]);
      }
      const Heads::Listed listed = heads.partial(x, careless, {.estimates = true});
      std::vector<float> best_first = full;
      std::ranges::sort(best_first, std::greater());
      const auto wanted = [&](float logit) { return logit >= best_first[99]; };
      missed += 100 - static_cast<uint32_t>(std::ranges::count_if(listed.logits, wanted));
      for (size_t k = 0; k < listed.ids.size(); ++k) EXPECT_EQ(listed.logits[k], full[listed.ids[k]]);
    }
    EXPECT_LT(bytes[1], 0.9 * bytes[0]) << name(format);
    EXPECT_LT(bytes[2], 0.9 * bytes[0]) << name(format);
    EXPECT_GT(missed, 0u) << "the spread does not reach the bounds";
  }
}

// Bounds that are all too low leave the leaders: there is always a row to choose.
TEST_F(CertifiedTest, LeadersAreListedWhateverTheirBounds) {
  const Shape shape = {3000, 32 + 256};
  Random random(16);
  const auto basis = make_basis(shape.cols, true, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  for (const Format format : kFormats) {
    Heads heads({}, format, shape, table, basis);
    std::vector<uint32_t> allowed(shape.rows / 3);
    for (uint32_t i = 0; i < allowed.size(); ++i) allowed[i] = i * 3 + 1;
    heads.choose_from(allowed);
    for (const uint32_t mode : {HEAD_LEADING, HEAD_SIGNS})
      for (const bool listed_only : {false, true}) {
        const Choice hopeless = {
            .rank = 4, .least_mode = mode, .from_least = true, .leading_spread = -10, .rest_spread = -10};
        const std::vector<float> x = make_x("towards a row", shape, table, random, *basis), full = heads.full(x);
        const Heads::Listed listed = heads.partial(x, hopeless, {.estimates = true, .listed = listed_only});
        EXPECT_GE(listed.ids.size(), 4u);
        EXPECT_EQ(std::set<uint32_t>(listed.ids.begin(), listed.ids.end()).size(), listed.ids.size());
        for (size_t k = 0; k < listed.ids.size(); ++k) {
          EXPECT_EQ(listed.logits[k], full[listed.ids[k]]);
          EXPECT_TRUE(!listed_only || listed.ids[k] % 3 == 1) << listed.ids[k];
        }
      }
  }
}

TEST_F(CertifiedTest, ManySlices) {
  Tuning tuning;
  tuning.slice_bytes = 1 << 20;
  const Shape shape = {20000, 160};
  Random random(15);
  for (const Format format : {Format::q8, Format::q4, Format::f16}) {
    const auto basis = make_basis(shape.cols, format == Format::q8, random);
    const std::vector<float> table = make_table("random", shape, random, *basis);
    Heads heads(tuning, format, shape, table, basis);
    for (const char* state : {"random", "towards a row"}) {
      expect_certified(heads, make_x(state, shape, table, random, *basis), {}, {.estimates = true});
      expect_certified(heads, make_x(state, shape, table, random, *basis), {.rank = 100, .temperature = 1},
                       {.estimates = true});
      expect_certified(heads, make_x(state, shape, table, random, *basis),
                       {.rank = 3, .least_mode = HEAD_SIGNS, .from_least = true}, {.estimates = true});
    }
  }
}

}  // namespace
}  // namespace weft::test
