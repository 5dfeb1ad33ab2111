// Top-p from a part of the rows: the token is the one that all rows give, whether the listed rows decide it or not.
#include "vocab/heads.h"

namespace weft::test {
namespace {

class NucleusTest : public GpuTest {};

// The same as set_cut in runtime/session/sampling.cpp, with several margins.
Choice choice_of(float top_p, float min_p, float temperature, uint32_t seed) {
  Choice choice = {.temperature = temperature, .from_least = seed % 3 != 0, .top_p = top_p, .min_p = min_p};
  choice.noise = min_p < 0.01f;
  choice.margin = choice.noise ? static_cast<float>(seed % 4) * 2 : 1 - std::log(min_p);
  choice.seed = seed;
  return choice;
}

constexpr float kTopPs[] = {0.1f, 0.5f, 0.9f, 0.95f, 0.99f}, kMinPs[] = {0, 0.05f, 1e-4f},
                kTemperatures[] = {0.05f, 0.15f, 0.4f, 1};
constexpr PartialHeadSteps kSteps = {.estimates = true, .nucleus = true};

// Tables with ties, equal rows, rows of zeros, huge rows; states that make one row stand out, or all logits equal.
TEST_F(NucleusTest, DrawsWhatAllRowsGive) {
  uint32_t seed = 1, decided = 0, undecided = 0;
  for (const Tuning& tuning : {Tuning{}, Tuning{.plain = true}})
    for (const Format format : kFormats)
      for (const char* kind : kTables)
        for (const Shape& shape : {Shape{1500, 128}, Shape{65, 33}, Shape{700, 288}}) {
          if (tuning.plain && format != Format::q8) continue;  // for time's sake
          Random random(seed);
          const auto basis = make_basis(shape.cols, seed % 2 == 0, random);
          const std::vector<float> table = make_table(kind, shape, random, *basis);
          Heads heads(tuning, format, shape, table, basis);
          const std::vector<uint32_t> modes = proven_modes(format);
          for (const char* state : kStates)
            for (int i = 0; i < 2; ++i, ++seed) {
              Choice choice = choice_of(kTopPs[seed % 5], kMinPs[seed / 5 % 3], kTemperatures[seed % 4], seed);
              choice.least_mode = modes[seed % modes.size()];
              if (seed % 7 == 0) choice.penalty = 1.3f;
              const std::vector<float> x = make_x(state, shape, table, random, *basis);
              const uint32_t want = heads.drawn(x, choice, nullptr), got = heads.drawn(x, choice, &kSteps);
              ASSERT_EQ(got, want) << tuning.name() << " " << name(format) << " " << kind << " " << shape.rows << " x "
                                   << shape.cols << ", x " << state << ", seed " << seed;
              if (heads.mode() < HEAD_ALL) ++(heads.head().every != 0 ? undecided : decided);
            }
        }
  EXPECT_GT(decided, 100u);
  EXPECT_GT(undecided, 100u);
}

// Rows like a model's: some stand out, and many are far below. Few tokens need every row.
TEST_F(NucleusTest, MostTokensAreDecidedByFewRows) {
  const Shape shape = {6000, 32 + 512};
  Random random(40);
  const auto basis = make_basis(shape.cols, false, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  Heads heads({}, Format::q8, shape, table, basis);
  uint32_t undecided[2] = {}, computed = 0;
  std::set<uint32_t> drawn;
  constexpr uint32_t kTokens = 100;
  for (uint32_t i = 0; i < kTokens; ++i) {
    std::vector<float> x = random.normals(shape.cols, 0.3f);
    for (int k = 1; k < 9; ++k)
      for (uint32_t c = 0, row = random.below(shape.rows); c < shape.cols; ++c)
        x[c] += (7 - 0.5f * static_cast<float>(k)) * table[size_t{row} * shape.cols + c];
    for (const bool with_min_p : {false, true}) {
      Choice choice = choice_of(0.95f, with_min_p ? 0.05f : 0, 0.7f, i);
      if (!with_min_p) choice.margin = 5;
      choice.from_least = true;
      const uint32_t want = heads.drawn(x, choice, nullptr);
      ASSERT_EQ(heads.drawn(x, choice, &kSteps), want) << i;
      drawn.insert(want);
      undecided[with_min_p ? 1 : 0] += heads.head().every;
      computed += heads.head().every != 0 ? heads.head().first_count : heads.head().exact_count;
    }
  }
  EXPECT_GT(drawn.size(), 50u);
  EXPECT_GT(undecided[0], 0u);
  EXPECT_LT(undecided[0], kTokens / 5);
  EXPECT_LT(undecided[1], undecided[0] / 2);
  EXPECT_LT(computed, 2 * kTokens * shape.rows / 10);
}

// A token below the floor: rows that are likelier are not listed, so the list cannot tell how much mass is above it.
// All rows are about as likely here, and a part of them is listed, whose median is not that of all.
TEST_F(NucleusTest, TokensBelowTheFloorAreUndecided) {
  const Shape shape = {300, 32 + 512};
  Random random(43);
  const auto basis = make_basis(shape.cols, false, random);
  const std::vector<float> table = random.normals(size_t{shape.rows} * shape.cols, 0.01f);
  Heads heads({}, Format::f16, shape, table, basis);
  uint32_t undecided = 0, few = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    const std::vector<float> x = random.normals(shape.cols, 0.8f);
    Choice choice = choice_of(0.5f, 0, 1, i);
    choice.margin = 0;
    choice.least_mode = HEAD_FOUR_BITS;
    choice.from_least = true;
    const uint32_t want = heads.drawn(x, choice, nullptr);
    EXPECT_EQ(heads.drawn(x, choice, &kSteps), want) << i;
    undecided += heads.head().every;
    few += heads.head().every != 0 && heads.head().first_count < shape.rows / 3 ? 1 : 0;
  }
  EXPECT_GT(undecided, 190u);
  EXPECT_GT(few, 100u);
}

// Where hardly any token is decided the device reads every row at once, for a while.
TEST_F(NucleusTest, GivesUpWhereFewTokensAreDecided) {
  const Shape shape = {3000, 32 + 256};
  Random random(41);
  const auto basis = make_basis(shape.cols, false, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  Heads heads({}, Format::q8, shape, table, basis);
  uint32_t attempts = 0;
  for (uint32_t i = 0; i < 200; ++i) {
    const std::vector<float> x = random.normals(shape.cols, 6);
    Choice choice = choice_of(0.01f, 0, 1, i);
    choice.from_least = i == 0;
    const uint32_t want = heads.drawn(x, choice, nullptr);
    ASSERT_EQ(heads.drawn(x, choice, &kSteps), want) << i;
    attempts += heads.mode() < HEAD_ALL ? 1 : 0;
  }
  EXPECT_GT(attempts, 10u);
  EXPECT_LT(attempts, 100u);
}

// The rows that may be chosen are listed, masked or both: the nucleus is of those rows.
TEST_F(NucleusTest, OfListedAndMaskedRows) {
  const Shape shape = {1000, 160};
  Random random(42);
  const auto basis = make_basis(shape.cols, true, random);
  const std::vector<float> table = make_table("random", shape, random, *basis);
  Heads heads({}, Format::q8, shape, table, basis);
  std::vector<uint32_t> listed;
  std::set<uint32_t> masked;
  for (uint32_t id = 1; id < shape.rows; id += 3) listed.push_back(id);
  for (uint32_t id = 0; id < shape.rows; id += 2) masked.insert(id);
  heads.mask(masked);
  for (const bool by_list : {true, false})
    for (const bool by_mask : {true, false}) {
      if (!by_list && !by_mask) continue;
      heads.choose_from(by_list ? listed : std::vector<uint32_t>(shape.rows));
      for (uint32_t seed = 0; seed < 40; ++seed) {
        const Choice choice = choice_of(kTopPs[seed % 5], kMinPs[seed % 3], kTemperatures[seed % 4], seed);
        const std::vector<float> x = make_x("towards a row", shape, table, random, *basis);
        const PartialHeadSteps all = {.listed = by_list, .masked = by_mask};
        PartialHeadSteps some = kSteps;
        some.listed = by_list;
        some.masked = by_mask;
        const uint32_t want = heads.drawn(x, choice, &all);
        ASSERT_EQ(heads.drawn(x, choice, &some), want) << by_list << by_mask << " seed " << seed;
      }
    }
}

}  // namespace
}  // namespace weft::test
