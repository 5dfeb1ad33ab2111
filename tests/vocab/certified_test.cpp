// The certified projection against the full one, over tables made to break bounds. The comparison is exact: every row
// that could be chosen is listed, and its logit has the full projection's very bits.
#include "vocab/heads.h"

namespace weft::test {
namespace {

// Expects every row that must be listed, once and with the same bits. allowed: the rows that may be chosen.
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

class CertifiedTest : public GpuTest {};

// No logit is above its bound, whichever part of the row it is from.
TEST_F(CertifiedTest, BoundsAreAboveTheLogits) {
  uint32_t seed = 100;
  for (const Tuning& tuning : {Tuning{}, Tuning{.plain = true}})
    for (const Format format : kFormats)
      for (const char* kind : kTables)
        for (const Shape& shape : {Shape{300, 128}, Shape{65, 33}, Shape{1, 32}, Shape{70, 1120}}) {
          if (tuning.plain && format != Format::q8) continue;  // for time's sake
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
                ASSERT_EQ(listed.head.exact_count + listed.head.refine_counts[0] + listed.head.refine_counts[1] +
                              listed.head.refine_counts[2],
                          0u);
              }
              for (uint32_t r = 0; r < shape.rows; ++r) ASSERT_GE(listed.bounds[r], full[r]) << "row " << r;
            }
          }
        }
}

// Bounds are not far above the logits: the head's cost depends on this distance.
TEST_F(CertifiedTest, BoundsAreNearTheLogits) {
  const Shape shape = {2000, 32 + 512};
  for (const Format format : kFormats) {
    Random random(7);
    const auto basis = make_basis(shape.cols, false, random);
    const std::vector<float> table = make_table("random", shape, random, *basis);
    Heads heads({}, format, shape, table, basis);
    const std::vector<float> x = random.normals(shape.cols), full = heads.full(x);
    // Norms are 0.05 * sqrt(512) and sqrt(512). The cosine between normal numbers and their signs is sqrt(2 / pi),
    // which leaves 0.756 of the norm at a right angle.
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

// Every state takes one of the eight choices, and they go round: all of them would take ten minutes on a slow driver.
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
  for (const Tuning& tuning : {Tuning{}, Tuning{.split = 2, .row_tiles = 1, .texel_products = false},
                               Tuning{.split = 4, .row_tiles = 1, .texel_products = false, .fewest_registers = true}})
    for (const Format format : {Format::q8, Format::q4, Format::f16})
      for (const char* kind : kTables)
        for (const Shape& shape : {Shape{700, 96}, Shape{1500, 128}, Shape{65, 33}, Shape{3, 640}, Shape{300, 288}}) {
          Random random(seed++);
          // Saves time.
          const bool some = tuning.fewest_registers || (tuning.split == 2 && format != Format::q8);
          if (some && std::string(kind) != "random") continue;
          const auto basis = make_basis(shape.cols, (seed + static_cast<uint32_t>(format)) % 2 == 0, random);
          const std::vector<float> table = make_table(kind, shape, random, *basis);
          Heads heads(tuning, format, shape, table, basis);
          const std::vector<uint32_t> modes = proven_modes(format);
          for (const char* state : kStates) {
            SCOPED_TRACE(tuning.name() + " " + name(format) + " " + kind + " " + std::to_string(shape.rows) + " x " +
                         std::to_string(shape.cols) + ", x " + state);
            Choice choice = choices[(turn + turn / std::size(kStates)) % std::size(choices)];
            choice.least_mode = modes[turn / 3 % modes.size()];
            choice.from_least = turn % 5 != 0;  // else it goes on from what the last token's bounds achieved
            expect_certified(heads, make_x(state, shape, table, random, *basis), choice, {.estimates = true});
            if (HasFatalFailure()) return;
            ++turn;
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

// Bounds then exclude no row; only the mask does.
TEST_F(CertifiedTest, AMaskOfFewerRowsThanAreWanted) {
  const Shape shape = {3000, 160};
  Random random(13);
  const auto basis = make_basis(shape.cols, true, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  Heads heads({}, Format::q8, shape, table, basis);
  const std::set<uint32_t> masked = {3, 64, 2999};
  heads.mask(masked);
  for (const uint32_t mode : {HEAD_SIGNS, HEAD_TWO_BITS, HEAD_FOUR_BITS})
    for (const float penalty : {1.0f, 1.5f}) {
      const Choice choice = {.rank = 40, .penalty = penalty, .least_mode = mode, .from_least = true};
      const Heads::Listed listed =
          heads.partial(make_x("random", shape, table, random, *basis), choice, {.estimates = true, .masked = true});
      EXPECT_EQ(listed.head.mode, mode);
      EXPECT_EQ(std::set<uint32_t>(listed.ids.begin(), listed.ids.end()), masked) << "mode " << mode;
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

// Spreads below 1 read less and keep their promise: none of these tokens differs.
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
