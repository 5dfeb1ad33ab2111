// The clusters of an adaptive softmax that can still win: against a choice in double that knows every row.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "reference/sample.h"
#include "support/op_sampler.h"

namespace weft::test {
namespace {

class ChooseClustersTest : public GpuTest {};

struct Case {
  uint32_t rows;
  std::vector<uint32_t> cutoffs;  // with the number of rows as the last
  uint32_t rank = 1;
  float margin = 0;
  bool noise = false, mass = false;
};

struct Chosen {
  uint32_t read;
  std::vector<abi::Indirect> groups;
  uint32_t rows;
};

// Buffers of one token: logits of computed rows, bounds of the others.
struct Token {
  Token(const std::shared_ptr<Device>& owner, const Case& one, const std::vector<float>& values)
      : device(owner), c(one) {
    *state.as<abi::StepState>() = {};
    state.as<abi::StepState>()->end = 17;
    *params.as<abi::SampleParams>() = no_sampling();
    abi::SampleParams& p = *params.as<abi::SampleParams>();
    p.cut_rank = c.rank, p.cut_margin = c.margin, p.cut_noise = c.noise, p.cut_mass = c.mass;
    p.seed_low = 5, p.inverse_temperature = c.noise ? 1.0f : 0.0f;
    std::fill_n(flags.as<uint32_t>(), flags.bytes() / 4, 0u);
    std::copy(values.begin(), values.end(), logits.as<float>());
    *clusters.as<abi::ClusterState>() = {};
    for (size_t k = 0; k < c.cutoffs.size(); ++k) {
      bounds.as<uint32_t>()[2 * k] = k ? c.cutoffs[k - 1] : 0;
      bounds.as<uint32_t>()[2 * k + 1] = c.cutoffs[k];
    }
  }
  Chosen choose(bool again) {
    Matrix table = {Format::q8, c.rows, 64};
    table.layout = Layout::planes;
    run_op(device, "bound_clusters, choose_clusters", [&](Recorder& recorder) {
      ops::choose_clusters(recorder, table, {state, params, flags, logits, bounds, scores, clusters},
                           static_cast<uint32_t>(c.cutoffs.size()), again);
    });
    const abi::ClusterState& result = *clusters.as<abi::ClusterState>();
    EXPECT_EQ(result.done, 0u);
    return {result.read,
            {std::begin(result.groups), std::end(result.groups)},
            state.as<abi::StepState>()->head.exact_count};
  }

  std::shared_ptr<Device> device;
  Case c;
  Buffer state = Buffer(device, "state", sizeof(abi::StepState), Memory::shared);
  Buffer params = Buffer(device, "params", sizeof(abi::SampleParams), Memory::shared);
  Buffer flags = Buffer(device, "flags", uint64_t{TOKEN_FLAG_WORDS(c.rows)} * 4, Memory::shared);
  Buffer logits = Buffer(device, "logits", uint64_t{c.rows} * 4, Memory::shared);
  Buffer scores = Buffer(device, "scores", uint64_t{c.rows} * 4, Memory::shared);
  Buffer bounds = Buffer(device, "bounds", c.cutoffs.size() * 8, Memory::shared);
  Buffer clusters = Buffer(device, "clusters", sizeof(abi::ClusterState), Memory::shared);
};

// Bits of the clusters that can win if those of `read` are computed.
uint32_t winners(const Case& c, const std::vector<float>& values, uint32_t read) {
  std::vector<double> known, best(c.cutoffs.size(), -1e300);
  for (uint32_t row = 0, k = 0; row < c.rows; ++row) {
    while (row >= c.cutoffs[k]) ++k;
    const double score = values[row] + (c.noise ? reference::noise(5, 17, row) : 0.0);
    if (k == 0 || (read >> k & 1) != 0)
      known.push_back(score);
    else
      best[k] = std::max(best[k], score);
  }
  std::sort(known.rbegin(), known.rend());
  const bool all = c.rank == 0 || c.mass;
  const double limit = all || known.size() < c.rank ? -1e299 : known[c.rank - 1] - c.margin;
  uint32_t result = 0;
  for (size_t k = 1; k < best.size(); ++k)
    if ((read >> k & 1) == 0 && best[k] > -1e299 && (all || best[k] >= limit)) result |= 1u << k;
  return result;
}

void check(const Case& c, uint32_t seed) {
  SCOPED_TRACE("rows " + std::to_string(c.rows) + " rank " + std::to_string(c.rank) + " seed " + std::to_string(seed));
  Random random(seed);
  std::vector<float> values = random.normals(c.rows, 3);
  std::vector<float> shares = random.normals(static_cast<uint32_t>(c.cutoffs.size()), 4);
  // Rows of a cluster that is not computed all have its share as their bound.
  for (uint32_t row = c.cutoffs[0], k = 1; row < c.rows; ++row) {
    while (row >= c.cutoffs[k]) ++k;
    values[row] = shares[k] + 3;
  }
  Token token(open_device(), c, values);
  const Chosen first = token.choose(false);
  const uint32_t can = winners(c, values, 0);
  if (c.rank == 0 || c.mass) {
    EXPECT_EQ(first.read, can);
  } else if (can == 0) {
    EXPECT_EQ(first.read, 0u);
  } else {
    EXPECT_EQ(std::popcount(first.read), 1) << "one at first";
    EXPECT_EQ(first.read & can, first.read);
  }
  // Computed rows turn out to be less than their bounds.
  for (uint32_t row = c.cutoffs[0], k = 1; row < c.rows; ++row) {
    while (row >= c.cutoffs[k]) ++k;
    if ((first.read >> k & 1) != 0) values[row] -= std::abs(random.normal()) * 2;
  }
  std::copy(values.begin(), values.end(), token.logits.as<float>());
  const Chosen second = token.choose(true);
  EXPECT_EQ(second.read, first.read | winners(c, values, first.read));
  uint32_t rows = c.cutoffs[0];
  for (size_t k = 1; k < c.cutoffs.size(); ++k) {
    const uint32_t count = c.cutoffs[k] - c.cutoffs[k - 1] / TILE_ROWS * TILE_ROWS;
    const bool taken = (second.read >> k & 1) != 0, now = taken && (first.read >> k & 1) == 0;
    if (taken) rows += count;
    EXPECT_EQ(second.groups[2 * k + 1].x > 0, now) << k;
    EXPECT_EQ(first.groups[2 * k + 1].x > 0, (first.read >> k & 1) != 0) << k;
  }
  EXPECT_EQ(second.rows, rows);
}

TEST_F(ChooseClustersTest, EqualsAChoiceThatKnowsEveryRow) {
  std::vector<uint32_t> many(16);
  for (uint32_t k = 0; k < 16; ++k) many[k] = 100 + 300 * k;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    for (const Case& c : {Case{300, {100, 180, 300}}, Case{3, {1, 2, 3}}, Case{5000, {64, 5000}}, Case{4600, many}}) {
      check(c, seed);
      Case other = c;
      other.rank = 7;
      check(other, seed);
      other.margin = 2, other.rank = 1;
      check(other, seed);
      other.margin = 0, other.noise = true;
      check(other, seed);
      other.mass = true;
      check(other, seed);
      other = c, other.rank = 0;
      check(other, seed);
    }
  }
}

TEST_F(ChooseClustersTest, SharesThatAreNoNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const Case c = {9, {3, 6, 9}};
  for (const auto& [value, wanted] : {std::pair{nan, 2u}, {infinity, 2u}, {-infinity, 0u}}) {
    Token token(open_device(), c, {1, 2, 3, value, value, value, -5, -5, -5});
    EXPECT_EQ(token.choose(false).read, wanted) << value;
  }
  // Logits that are no numbers rule nothing out.
  Token token(open_device(), c, {nan, infinity, 3, 4, 4, 4, -5, -5, -5});
  EXPECT_EQ(token.choose(false).read, 2u);
}

TEST_F(ChooseClustersTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer small(device, "small", 16, Memory::device), large(device, "large", 65536, Memory::device);
  Matrix table = {Format::q8, 300, 64};
  const auto run = [&](const View& logits, const View& clusters, uint32_t softmaxes) {
    run_op(device, "bound_clusters, choose_clusters", [&](Recorder& r) {
      ops::choose_clusters(r, table, {large, large, large, logits, large, large, clusters}, softmaxes, false);
    });
  };
  EXPECT_THROW(run(small, large, 3), Error);
  EXPECT_THROW(run(large, small, 3), Error);
  EXPECT_THROW(run(large, large, 17), Error);
}

}  // namespace
}  // namespace weft::test
