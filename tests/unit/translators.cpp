// Least squares of `weft lens --fit`: what they minimise, term by term.
#include "translators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace weft::cli {
namespace {

constexpr std::size_t kWidth = 7, kPairs = 61;  // of neither is a vector of the machine's a divisor

struct Pairs {
  std::vector<float> x, y;
};

// noise: added to y = x + W x + b. Lengths and deviations differ much.
Pairs make_pairs(unsigned seed, double noise) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Pairs pairs;
  for (std::size_t t = 0; t < kPairs; ++t) {
    std::vector<double> x(kWidth);
    for (std::size_t i = 0; i < kWidth; ++i) x[i] = normal(random) * std::pow(3.0, i) * (t % 9 == 0 ? 50 : 1) + 2;
    for (std::size_t i = 0; i < kWidth; ++i) {
      double y = x[i] + 0.5 * static_cast<double>(i) + noise * normal(random);
      for (std::size_t j = 0; j < kWidth; ++j) y += std::sin(static_cast<double>(3 * i + 5 * j)) * x[j];
      pairs.y.push_back(static_cast<float>(y));
    }
    for (const double one : x) pairs.x.push_back(static_cast<float>(one));
  }
  return pairs;
}

Moments moments_of(const Pairs& pairs) {
  Moments moments(kWidth);  // in parts of several sizes
  Moments rest(kWidth);
  moments.add(pairs.x.data(), pairs.y.data(), 5);
  moments.add(&pairs.x[5 * kWidth], &pairs.y[5 * kWidth], 16);
  rest.add(&pairs.x[21 * kWidth], &pairs.y[21 * kWidth], kPairs - 21);
  moments.add(rest);
  return moments;
}

// sum of |W x + b - d|^2 / |y|^2 + ridge * sum of W_ij^2 C_jj, and the sum of |d|^2 / |y|^2.
struct Objective {
  double error = 0, penalty = 0, nothing = 0;
};
Objective objective(const Pairs& pairs, const Translator& translator, double ridge) {
  Objective result;
  double weights = 0;
  std::vector<double> mean(kWidth), square(kWidth);
  for (std::size_t t = 0; t < kPairs; ++t) {
    const float *x = &pairs.x[t * kWidth], *y = &pairs.y[t * kWidth];
    double length = 0;
    for (std::size_t i = 0; i < kWidth; ++i) length += double{y[i]} * y[i];
    weights += 1 / length;
    for (std::size_t i = 0; i < kWidth; ++i) {
      const double d = double{y[i]} - x[i];
      double made = translator.bias[i];
      for (std::size_t j = 0; j < kWidth; ++j) made += double{translator.weight[i * kWidth + j]} * x[j];
      result.error += (made - d) * (made - d) / length;
      result.nothing += d * d / length;
      mean[i] += x[i] / length;
      square[i] += double{x[i]} * x[i] / length;
    }
  }
  for (std::size_t i = 0; i < kWidth; ++i)
    for (std::size_t j = 0; j < kWidth; ++j)
      result.penalty +=
          ridge * std::pow(double{translator.weight[i * kWidth + j]}, 2) * (square[j] - mean[j] * mean[j] / weights);
  return result;
}

TEST(Translators, FindWhatTheStatesWereMadeOf) {
  const Translator found = moments_of(make_pairs(1, 0)).solve(1e-12);
  for (std::size_t i = 0; i < kWidth; ++i) {
    EXPECT_NEAR(found.bias[i], 0.5 * static_cast<double>(i), 1e-3) << i;
    for (std::size_t j = 0; j < kWidth; ++j)
      EXPECT_NEAR(found.weight[i * kWidth + j], std::sin(static_cast<double>(3 * i + 5 * j)), 1e-4) << i << " " << j;
  }
}

TEST(Translators, AreTheLeast) {
  const Pairs pairs = make_pairs(2, 30);
  const Moments moments = moments_of(pairs);
  for (const double ridge : {1e-3, 0.1, 10.0}) {
    const Translator found = moments.solve(ridge);
    const Objective least = objective(pairs, found, ridge);
    EXPECT_NEAR(moments.error(found), least.error - least.nothing, 1e-6 * least.nothing) << ridge;
    for (std::size_t k = 0; k < kWidth * (kWidth + 1); ++k)
      for (const float step : {-1e-2f, 1e-2f}) {
        Translator other = found;
        float& value = k < kWidth * kWidth ? other.weight[k] : other.bias[k - kWidth * kWidth];
        value += step * (std::abs(value) + 0.1f);
        const Objective now = objective(pairs, other, ridge);
        EXPECT_GT(now.error + now.penalty, least.error + least.penalty) << ridge << " " << k << " " << step;
        EXPECT_NEAR(moments.error(other), now.error - now.nothing, 1e-6 * now.nothing);
      }
  }
}

TEST(Translators, AColumnThatIsAlwaysTheSame) {
  Pairs pairs = make_pairs(3, 1);
  for (std::size_t t = 0; t < kPairs; ++t) pairs.x[t * kWidth + 2] = 0;
  const Translator found = moments_of(pairs).solve(0.1);
  for (std::size_t i = 0; i < kWidth; ++i) EXPECT_EQ(found.weight[i * kWidth + 2], 0) << i;
}

}  // namespace
}  // namespace weft::cli
