// Vocabulary tables that are one table rounded twice, and others. No device needed.
#include "model/tied_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "format/model_file.h"
#include "support/quantise.h"
#include "support/source_folder.h"

namespace weft {
namespace {

constexpr uint64_t kRows = 64, kColumns = 256;

// A table and the bytes it is made of.
struct Stored {
  std::vector<std::byte> bytes;
  TensorView view;

  Stored(const std::vector<float>& values, DType type, uint64_t columns = kColumns)
      : bytes(test::quantise(values, type)), view{"table", type, {values.size() / columns, columns}, bytes} {}
  Stored(const Stored&) = delete;
};

std::optional<TableDifference> difference(const TensorView& a, const TensorView& b) {
  return difference_by_rounding(a, b, [](uint64_t) {});
}

// Rows of different scales, as tables have them: zeros, nearly nothing, a few large numbers among small ones.
std::vector<float> table_numbers(uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.03f);
  std::student_t_distribution<float> heavy(2);
  std::vector<float> values(kRows * kColumns);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t row = i / kColumns;
    values[i] = row == 5       ? 0
                : row == 6     ? 1e-5f * normal(random)
                : row % 4 == 3 ? 0.02f * heavy(random)
                               : normal(random);
  }
  return values;
}

TEST(TiedTables, OneTableOfTwoTypesIsRecognised) {
  const std::vector<float> values = table_numbers();
  const DType types[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q5_0, DType::q4_1, DType::q4_0};
  for (const DType a : types)
    for (const DType b : types) {
      if (a == b) continue;
      const auto found = difference(Stored(values, a).view, Stored(values, b).view);
      ASSERT_TRUE(found) << name(a) << ", " << name(b);
      EXPECT_GT(found->largest, 0);
      EXPECT_LT(found->largest, found->largest_value);
    }
}

TEST(TiedTables, TheDifferenceIsRelativeToTheFinerTable) {
  const std::vector<float> values = {1, 2, 2, 4 + 0x1p-7f};  // bf16 rounds the last one to 4
  const auto found = difference(Stored(values, DType::f32, 4).view, Stored(values, DType::bf16, 4).view);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->largest, 0x1p-7);
  EXPECT_EQ(found->largest_value, 4);
  EXPECT_NEAR(found->relative, 0x1p-7 / 5, 1e-5);
}

// All of ggml's types, by its own quantisers (tests/tools/rounding_goldens.py).
TEST(TiedTables, GgmlsTypesAreRecognised) {
  const ModelFile goldens = open_model(source_folder() / "tests/unit/golden/format/rounding.gguf");
  int pairs = 0;
  for (const TensorView& a : goldens.tensors)
    for (const TensorView& b : goldens.tensors) {
      if (&a == &b) continue;
      EXPECT_TRUE(difference(a, b)) << a.name << ", " << b.name;
      ++pairs;
    }
  EXPECT_EQ(pairs, 132);
}

// Moves one number of a row that nothing was clipped in.
std::vector<float> with_one_moved(std::vector<float> values, size_t row, float by) {
  const auto first = values.begin() + static_cast<ptrdiff_t>(row * kColumns);
  const auto [low, high] = std::minmax_element(first, first + 32);
  std::iter_swap(first, low), std::iter_swap(first + 1, high);
  first[2] = by;
  return values;
}

TEST(TiedTables, OneNumberThatDiffersIsFound) {
  const std::vector<float> values = table_numbers();
  for (const DType coarser : {DType::q5_0, DType::q4_0, DType::q4_1, DType::bf16})
    for (const DType finer : {DType::f16, DType::q8_0})
      for (const size_t row : {size_t{0}, size_t{17}, size_t{kRows - 1}}) {
        SCOPED_TRACE(std::string(name(finer)) + ", " + name(coarser) + ", row " + std::to_string(row));
        // The block's numbers reach 0.05 at least, which makes its steps 0.03 at most.
        const Stored a(with_one_moved(values, row, 0.001f), finer), b(with_one_moved(values, row, 0.001f), coarser),
            moved(with_one_moved(values, row, 0.04f), coarser);
        EXPECT_TRUE(difference(a.view, b.view));
        EXPECT_FALSE(difference(a.view, moved.view));
      }
}

// A step of this block is 0.01: half of it, and what rounding the scale adds, is rounding; a fifth more is not.
TEST(TiedTables, TheBoundIsHalfAStep) {
  std::vector<float> values(32, 0.0f), moved = values;
  values[0] = moved[0] = -0.16f;
  const Stored coarser(values, DType::q5_0, 32);
  for (const float off : {0.005f, -0.005f, 0.006f, -0.006f}) {
    moved[7] = off;
    EXPECT_EQ(difference(Stored(moved, DType::f32, 32).view, coarser.view).has_value(), std::abs(off) < 0.0055f) << off;
  }
}

TEST(TiedTables, TrainingFurtherIsFound) {
  const std::vector<float> values = table_numbers();
  std::mt19937 random(2);
  std::normal_distribution<float> step(
      0, 0.03f * 0.02f);  // a fiftieth of the numbers' deviation: less than Q5_0's rounding
  std::vector<float> trained = values;
  for (float& value : trained) value += step(random);
  for (const DType coarser : {DType::q5_0, DType::q4_1, DType::q4_0}) {
    EXPECT_TRUE(difference(Stored(values, DType::q8_0).view, Stored(values, coarser).view));
    EXPECT_FALSE(difference(Stored(trained, DType::q8_0).view, Stored(values, coarser).view)) << name(coarser);
  }
}

TEST(TiedTables, OtherTablesAreNot) {
  const std::vector<float> values = table_numbers();
  const Stored table(values, DType::q8_0), other(table_numbers(9), DType::q4_0);
  EXPECT_FALSE(difference(table.view, other.view));
  // Rows in another order; one row that is zero in one of them; fewer rows.
  std::vector<float> rotated = values, zeroed = values;
  std::rotate(rotated.begin(), rotated.begin() + kColumns, rotated.end());
  std::fill_n(zeroed.begin() + 9 * kColumns, kColumns, 0.0f);
  const std::vector<float> fewer(values.begin(), values.end() - kColumns);
  for (const std::vector<float>& wrong : {rotated, zeroed, fewer}) {
    const Stored coarser(wrong, DType::q5_0);
    EXPECT_FALSE(difference(table.view, coarser.view));
  }
  // Between tables of one type, the smallest difference counts: here one step.
  Stored nearly(values, DType::q8_0);
  nearly.bytes[50] ^= std::byte{1};
  EXPECT_FALSE(difference(table.view, nearly.view));
}

TEST(TiedTables, NumbersThatAreNoneDiffer) {
  for (const float none : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values = table_numbers();
    values[40] = none;
    for (const DType finer : {DType::f32, DType::q8_0})
      for (const DType coarser : {DType::f16, DType::q8_0, DType::q5_0})
        if (finer != coarser) {
          EXPECT_FALSE(difference(Stored(values, finer).view, Stored(values, coarser).view)) << name(coarser);
        }
  }
}

// An infinite scale has infinite bounds, which allow nothing.
TEST(TiedTables, AnInfiniteScaleDiffers) {
  std::vector<float> values = table_numbers();
  for (size_t i = 0; i < 32; ++i) values[i] = i % 2 ? 0.1f : -0.1f;  // no level of the block is 0
  const Stored finer(values, DType::q8_0);
  Stored coarser(values, DType::q5_0);
  EXPECT_TRUE(difference(finer.view, coarser.view));
  coarser.bytes[0] = std::byte{0}, coarser.bytes[1] = std::byte{0x7c};
  EXPECT_FALSE(difference(finer.view, coarser.view));
}

TEST(TiedTables, TheComparisonStopsWhereTablesDiffer) {
  std::vector<float> values(10000 * 32, 0.25f);
  const Stored table(values, DType::q8_0, 32), same(values, DType::f16, 32);
  const auto calls = [&](const TensorView& coarser) {
    std::vector<uint64_t> rows;
    const bool tied =
        difference_by_rounding(table.view, coarser, [&](uint64_t done) { rows.push_back(done); }).has_value();
    EXPECT_EQ(tied, &coarser == &same.view);
    return rows;
  };
  const std::vector<uint64_t> all = {0, 4096, 8192}, one = {0};
  EXPECT_EQ(calls(same.view), all);
  values[0] = 0;
  const Stored first(values, DType::f16, 32);
  EXPECT_EQ(calls(first.view), one);
  values[0] = 0.25f, values.back() = 0;
  const Stored last(values, DType::f16, 32);
  EXPECT_EQ(calls(last.view), all);
}

TEST(TiedTables, TheFinerTableIsChosen) {
  const std::vector<float> values = table_numbers();
  const Stored fine(values, DType::q8_0), coarse(values, DType::q5_0), copy(values, DType::q8_0),
      other(table_numbers(3), DType::q5_0);
  const auto choose = [](const Stored& embedding, const Stored& output, bool by_rounding) {
    return choose_tables({&embedding.view, &output.view}, by_rounding, [](uint64_t) {});
  };
  for (const bool output_finer : {false, true}) {
    const Stored &embedding = output_finer ? coarse : fine, &output = output_finer ? fine : coarse;
    const VocabularyTables tied = choose(embedding, output, true), apart = choose(embedding, output, false);
    EXPECT_EQ(tied.embedding, &fine.view);
    EXPECT_EQ(tied.output, nullptr);
    EXPECT_EQ(tied.left_out, &coarse.view);
    EXPECT_TRUE(tied.tied_by_rounding());
    EXPECT_EQ(apart.embedding, &embedding.view);
    EXPECT_EQ(apart.output, &output.view);
    EXPECT_EQ(apart.left_out, nullptr);
  }
  const VocabularyTables same = choose(fine, copy, false), untied = choose(fine, other, true);
  EXPECT_EQ(same.left_out, &copy.view);
  EXPECT_FALSE(same.tied_by_rounding());
  EXPECT_EQ(untied.output, &other.view);
  EXPECT_EQ(choose_tables({&fine.view, nullptr}, true, [](uint64_t) {}).output, nullptr);
}

}  // namespace
}  // namespace weft
