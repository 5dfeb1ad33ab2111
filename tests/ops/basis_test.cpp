// The basis of vocabulary tables on the CPU, and as the device reads it. No device needed.
#include "ops/basis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

constexpr uint32_t kWidths[] = {1, 31, 32, 33, 64, 96, 172, 576, 1056};

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

std::vector<uint32_t> shuffled(uint32_t width, Random& random) {
  std::vector<uint32_t> order(width);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t i = width; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

std::vector<float> some_scales(uint32_t width, Random& random) {
  std::vector<float> scales;
  for (uint32_t i = 0; i < width; ++i) scales.push_back(std::exp(random.uniform(-3, 3)));
  return scales;
}

TEST(Basis, KeepsProductsOfRowsAndStates) {
  for (const uint32_t width : kWidths) {
    SCOPED_TRACE(width);
    Random random(width);
    const Basis basis(width, shuffled(width, random), {}, some_scales(width, random));
    EXPECT_EQ(basis.cols(), (width + 31) / 32 * 32);
    EXPECT_EQ(basis.rest(), basis.cols() / 32 - 1);
    std::vector<float> one_hot(width), constant(width, 0.25f);
    one_hot[width / 2] = -3;
    const std::vector<std::vector<float>> vectors = {random.normals(width), random.normals(width, 1e-3f),
                                                     random.normals(width, 1e4f), one_hot, constant};
    for (const std::vector<float>& row : vectors)
      for (const std::vector<float>& state : vectors) {
        std::vector<float> turned_row(basis.cols()), turned_state(basis.cols());
        basis.rotate_row(row, turned_row);
        basis.rotate_state(state, turned_state);
        const double norms = dot(turned_row, turned_row) * dot(turned_state, turned_state);
        EXPECT_NEAR(dot(turned_row, turned_state), dot(row, state), 1e-5 * std::sqrt(norms));
      }
  }
}

// Without scales norms are kept, too.
TEST(Basis, KeepsNorms) {
  for (const uint32_t width : kWidths) {
    Random random(width);
    const Basis basis(width, shuffled(width, random), {}, {});
    const std::vector<float> row = random.normals(width);
    std::vector<float> turned(basis.cols());
    basis.rotate_row(row, turned);
    EXPECT_NEAR(dot(turned, turned), dot(row, row), 1e-5 * dot(row, row)) << width;
  }
}

// The words are what the device knows; a rotation by them alone is the same one.
TEST(Basis, WordsDescribeIt) {
  for (const uint32_t width : kWidths)
    for (const bool known : {false, true}) {
      SCOPED_TRACE(std::to_string(width) + (known ? " known" : " unknown"));
      Random random(width);
      const std::vector<uint32_t> order = shuffled(width, random);
      const std::vector<float> mean = random.normals(width, 5), x = random.normals(width),
                               scales = some_scales(width, random);
      const Basis basis = known ? Basis(width, order, mean, scales) : Basis(width);
      const std::vector<uint32_t> words = basis.words();
      ASSERT_EQ(words.size(), basis.cols() * 3 + basis.cols() / 32 * 6);
      const reference::TableBasis read(words);
      ASSERT_EQ(read.columns.size(), basis.cols());
      for (uint32_t i = 0; i < basis.cols(); ++i) {
        ASSERT_EQ(read.columns[i], i >= width ? reference::TableBasis::kNone : known ? order[i] : i) << i;
        ASSERT_EQ(read.mean[i], basis.mean()[i]) << i;
        const float scale = i >= width ? 0 : known ? 1 / scales[order[i]] : 1;
        ASSERT_FLOAT_EQ(static_cast<float>(read.scales[i]), scale) << i;
      }
      std::vector<float> row(basis.cols()), state(basis.cols());
      basis.rotate_row(x, row);
      basis.rotate_state(x, state);
      const std::vector<double> row_want = read.row(doubles(x)), state_want = read.state(doubles(x)),
                                mean_want = read.state(known ? doubles(mean) : std::vector<double>(width));
      const double row_unit = std::sqrt(dot(row, row)), state_unit = std::sqrt(dot(state, state));
      for (uint32_t i = 0; i < basis.cols(); ++i) {
        ASSERT_NEAR(row[i], row_want[i], 1e-6 * row_unit) << i;
        ASSERT_NEAR(state[i], state_want[i], 1e-6 * state_unit) << i;
        ASSERT_NEAR(basis.mean()[i], mean_want[i], 5e-6 * state_unit) << i;
      }
    }
}

// Half of the signs are minus, in either round, and other seeds have others.
TEST(Basis, SignsAreChance) {
  std::set<std::vector<double>> seen;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{2}, ~uint64_t{0}, Basis::kSeed}) {
    const reference::TableBasis basis(Basis(4096, {}, {}, {}, seed).words());
    for (const std::vector<double>& signs : basis.signs) {
      EXPECT_TRUE(seen.insert(signs).second) << seed;
      EXPECT_LT(std::abs(std::accumulate(signs.begin(), signs.end(), 0.0)), 4 * 64) << seed;
      for (const size_t far : {1u, 2u, 32u, 33u, 1024u}) {  // nor do they go with their neighbours
        double together = 0;
        for (size_t i = far; i < signs.size(); ++i) together += signs[i] * signs[i - far];
        EXPECT_LT(std::abs(together), 4 * 64) << seed << ", " << far;
      }
    }
    double rounds = 0;
    for (size_t i = 0; i < 4096; ++i) rounds += basis.signs[0][i] * basis.signs[1][i];
    EXPECT_LT(std::abs(rounds), 4 * 64) << seed;
  }
}

TEST(Basis, RefusesAnOrderThatIsNoPermutation) {
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 1, 2}, std::vector<uint32_t>{0, 1, 2, 3, 4}, std::vector<uint32_t>{0, 1, 2, 2},
        std::vector<uint32_t>{0, 1, 2, 4}, std::vector<uint32_t>{NO_COLUMN, 1, 2, 3}}) {
    try {
      Basis(4, order, {}, {});
      ADD_FAILURE() << "an order of " << order.size() << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::internal);
    }
  }
}

TEST(Basis, RefusesScalesThatAreNotAboveZero) {
  const std::vector<uint32_t> order = {0, 1, 2};
  for (const std::vector<float>& scales :
       {std::vector<float>{1, 1}, {1, 0, 1}, {1, 1, -1}, {NAN, 1, 1}, {1, INFINITY, 1}}) {
    try {
      Basis(3, order, {}, scales);
      ADD_FAILURE() << scales.size() << " scales were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::internal);
    }
  }
}

}  // namespace
}  // namespace weft::test
