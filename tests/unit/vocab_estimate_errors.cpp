// Basis of the heads that are sure except for a small probability: over the seeds of the rotation, the errors of
// estimates are those of uniformly random directions (shaders/quantise.comp). No device needed.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <numbers>
#include <numeric>

#include "support/op_inputs.h"
#include "vocab/heads/pruned.h"

namespace weft::test {
namespace {

// The integral of (1 - s^2)^power from `from` to 1, by Simpson's rule: fine steps near `from`, where the integrand is.
double cap(double from, double power) {
  const double end = std::min(1.0, from + 60 / (power * std::max(from, 1 / std::sqrt(power))));
  const uint32_t steps = 20000;
  const double h = (end - from) / steps;
  double sum = 0;
  for (uint32_t i = 0; i <= steps; ++i) {
    const double s = from + h * i;
    sum += (i == 0 || i == steps ? 1 : i % 2 == 1 ? 4 : 2) * std::pow(std::max(0.0, 1 - s * s), power);
  }
  return sum * h / 3;
}

// The probability that the first coordinate of a random point on the unit sphere of n dimensions is above u.
double above(double u, double n) { return cap(u, (n - 3) / 2) / (2 * cap(0, (n - 3) / 2)); }

TEST(SureSpread, IsTheSpheresQuantile) {
  EXPECT_NEAR(above(0.5, 3), 0.25, 1e-9);  // Archimedes: uniform
  EXPECT_NEAR(above(3 / std::sqrt(1e6), 1e6), 0.5 * std::erfc(3 / std::numbers::sqrt2), 1e-7);
  for (const uint32_t dimensions : {100u, 128u, 544u, 1000u, 2016u, 4000u})
    for (double probability = 1e-3; probability > 5e-16; probability /= 10) {
      double low = 0, high = 1;
      for (int i = 0; i < 60; ++i) {
        const double middle = (low + high) / 2;
        (above(middle, dimensions - 1) > probability ? low : high) = middle;
      }
      const double spread = sure_spread(probability, dimensions);
      EXPECT_GE(spread, high * (1 - 1e-9)) << dimensions << ", " << probability;
      EXPECT_LE(spread, high * 1.03) << dimensions << ", " << probability;
    }
  for (const uint32_t dimensions : {0u, 1u, 2u, 3u}) EXPECT_EQ(sure_spread(1e-9, dimensions), 1);
  EXPECT_LE(sure_spread(1e-15, 32), 1);
}

constexpr uint32_t kSeeds = 100, kRows = 24;

// Rows and hidden states of `n` columns, which are all rotated.
struct Family {
  const char* name;
  std::function<std::vector<float>(uint32_t i, uint32_t n, Random&)> row, state;
};

std::vector<float> normals(uint32_t, uint32_t n, Random& random) { return random.normals(n); }
std::vector<float> one_hot(uint32_t, uint32_t n, Random& random) {
  std::vector<float> x(n);
  x[random.below(n)] = 1;
  return x;
}
// In the first columns of blocks, which Hadamard matrices treat like no others.
std::vector<float> first_hot(uint32_t i, uint32_t n, Random&) {
  std::vector<float> x(n);
  x[i * 32 % n] = 1;
  return x;
}
std::vector<float> neighbour_hot(uint32_t i, uint32_t n, Random&) {
  std::vector<float> x(n);
  x[i % n] = 1;
  return x;
}
std::vector<float> two_hot(uint32_t, uint32_t n, Random& random) {
  std::vector<float> x(n);
  const uint32_t at = random.below(n);
  x[at] = 1;
  x[at ^ 1] = (random.word() & 1) != 0 ? 1 : -1;
  return x;
}
std::vector<float> far_two_hot(uint32_t, uint32_t n, Random& random) {
  std::vector<float> x(n);
  x[random.below(n)] += 1;
  x[random.below(n)] += 0.5f;
  return x;
}
std::vector<float> constant(uint32_t, uint32_t n, Random&) { return std::vector<float>(n, 1); }
std::vector<float> equal_blocks(uint32_t, uint32_t n, Random& random) {
  std::vector<float> x(n);
  for (uint32_t i = 0; i < n; ++i) x[i] = i % 32 == 0 ? random.normal() : x[i - 1];
  return x;
}
std::vector<float> one_block(uint32_t, uint32_t n, Random& random) {
  std::vector<float> x(n);
  const uint32_t block = random.below(n / 32);
  for (uint32_t i = 0; i < 32; ++i) x[block * 32 + i] = random.normal();
  return x;
}
// Rows of Hadamard matrices, block by block, and over the blocks.
std::vector<float> walsh(uint32_t i, uint32_t n, Random&) {
  std::vector<float> x(n);
  for (uint32_t c = 0; c < n; ++c) x[c] = std::popcount(c & (i * 37 + 1)) % 2 == 0 ? 1.0f : -1.0f;
  return x;
}
// Numbers that planes guess badly as they stand: just above and below the borders of a first bit, or of two.
std::vector<float> borders(uint32_t i, uint32_t n, Random& random) {
  std::vector<float> x(n);
  for (uint32_t c = 0; c < n; ++c)
    x[c] = c % 32 == 0 ? 127 : (random.word() & 1) != 0 ? (i % 2 == 0 ? 63 : 65) : (random.word() & 1) != 0 ? 0 : -1;
  return x;
}
// Columns in the order of the states' energy, which rows often share.
std::vector<float> falling(uint32_t, uint32_t n, Random& random) {
  std::vector<float> x = random.normals(n);
  for (uint32_t i = 0; i < n; ++i) x[i] *= 1 / (1 + 8 * static_cast<float>(i) / static_cast<float>(n));
  return x;
}
std::vector<float> heavy(uint32_t, uint32_t n, Random& random) {
  std::vector<float> x(n);
  for (float& value : x) value = random.normal() / std::max(0.01f, std::abs(random.normal()));
  return x;
}

struct Figure {
  double mean = 0, error = 0;  // of the share, and its standard error
};

// By stage and threshold, the share of errors beyond it.
constexpr double kBeyond[] = {1.5, 2, 2.5};
struct Figures {
  Figure of[2][3];
  double largest[2] = {};          // error of all, by stage, in units of a random direction's standard deviation
  double largest_of_parallel = 0;  // errors of states that lie along the row, in their units
};

Figures measure(const Family& family, Format format, uint32_t n) {
  const uint32_t width = n + LEADING;
  Random random(n);
  std::vector<float> table;
  std::vector<std::vector<float>> states;
  for (uint32_t i = 0; i < kRows; ++i) {
    std::vector<float> row(LEADING), state(LEADING);
    const std::vector<float> values = family.row(i, n, random);
    row.insert(row.end(), values.begin(), values.end());
    const std::vector<float> own = family.state ? family.state(i, n, random) : values;
    state.insert(state.end(), own.begin(), own.end());
    table.insert(table.end(), row.begin(), row.end());
    states.push_back(state);
  }
  const TensorView tensor = {"t", DType::f32, {kRows, width}, std::as_bytes(std::span(table))};
  double sums[2][3] = {}, squares[2][3] = {};
  Figures figures;
  double pairs[2] = {};
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::span<const float> none;
    const auto basis = std::make_shared<const Basis>(width, std::span<const uint32_t>(), none, none, seed);
    const std::vector<std::byte> bytes = pack_table(format, tensor, basis);
    std::vector<std::vector<float>> turned;
    for (const std::vector<float>& state : states) basis->rotate_state(state, turned.emplace_back(width));
    double count[2][3] = {};
    pairs[0] = pairs[1] = 0;
    for (uint32_t r = 0; r < kRows; ++r) {
      const reference::TableRow row = reference::read_table_row(bytes, bits_of(format), width, r);
      std::vector<float> e(width);
      basis->rotate_row(std::span(table).subspan(size_t{r} * width, width), e);
      for (uint32_t stage = 0; stage < 2; ++stage) {
        std::vector<double> d = row.known(stage, bits_of(format));
        double e2 = 0, d2 = 0, de = 0, guess2 = 0;
        for (uint32_t i = 0; i < n; ++i) {
          const double guess = row.stages[stage].factor * d[i];
          d[i] = row.values[LEADING + i] - guess;
          guess2 += guess * guess;
          d2 += d[i] * d[i];
          de += d[i] * e[LEADING + i];
          e2 += double{e[LEADING + i]} * e[LEADING + i];
        }
        // The part along the row, from the factor's rounding, has a bound of its own; so has all that is as small.
        d2 -= de * de / e2;
        if (d2 < guess2 * 0x1p-20) continue;
        for (const std::vector<float>& y : turned) {
          double dy = 0, ey = 0, y2 = 0;
          for (uint32_t i = 0; i < n; ++i) {
            dy += d[i] * y[LEADING + i];
            ey += double{e[LEADING + i]} * y[LEADING + i];
            y2 += double{y[LEADING + i]} * y[LEADING + i];
          }
          dy -= de * ey / e2;
          // A state's part along the row has no error, either.
          const double across = y2 - ey * ey / e2, unit = std::sqrt(d2 / (n - 1));
          if (across < 1e-4 * y2) {
            figures.largest_of_parallel = std::max(figures.largest_of_parallel, std::abs(dy) / (unit * std::sqrt(y2)));
            continue;
          }
          ++pairs[stage];
          const double ratio = dy / (unit * std::sqrt(across));
          figures.largest[stage] = std::max(figures.largest[stage], std::abs(ratio));
          for (size_t k = 0; k < 3; ++k) count[stage][k] += ratio > kBeyond[k] ? 1 : 0;
        }
      }
    }
    for (size_t stage = 0; stage < 2; ++stage)
      for (size_t k = 0; k < 3; ++k) {
        const double share = pairs[stage] > 0 ? count[stage][k] / pairs[stage] : 0;
        sums[stage][k] += share;
        squares[stage][k] += share * share;
      }
  }
  for (size_t stage = 0; stage < 2; ++stage)
    for (size_t k = 0; k < 3; ++k) {
      Figure& figure = figures.of[stage][k];
      figure.mean = sums[stage][k] / kSeeds;
      // One seed is one sample: the errors of its rows and states depend on each other.
      const double variance = squares[stage][k] / kSeeds - figure.mean * figure.mean;
      figure.error = std::sqrt(std::max(variance, 0.0) / (kSeeds - 1));
    }
  return figures;
}

const Family kFamilies[] = {{"random", normals, normals},
                            {"one-hot rows, random states", one_hot, normals},
                            {"random rows, one-hot states", normals, one_hot},
                            {"one-hot", one_hot, one_hot},
                            {"one-hot in blocks' first columns", first_hot, first_hot},
                            {"one-hot in a block", neighbour_hot, neighbour_hot},
                            {"one-hot rows in blocks' first columns, in a block", first_hot, neighbour_hot},
                            {"two-hot", two_hot, two_hot},
                            {"far two-hot", far_two_hot, far_two_hot},
                            {"one-hot rows, two-hot states", one_hot, two_hot},
                            {"constant rows, random states", constant, normals},
                            {"constant rows, one-hot states", constant, one_hot},
                            {"random rows, constant states", normals, constant},
                            {"rows that are the states", normals, {}},
                            {"one-hot rows that are the states", one_hot, {}},
                            {"blocks of equal values", equal_blocks, equal_blocks},
                            {"one block", one_block, one_block},
                            {"Walsh functions", walsh, walsh},
                            {"Walsh functions, one-hot states", walsh, one_hot},
                            {"Walsh functions, constant states", walsh, constant},
                            {"borders of planes", borders, borders},
                            {"borders of planes, one-hot states", borders, one_hot},
                            {"heavy tails", heavy, heavy},
                            {"falling energy", falling, falling},
                            {"falling energy, random states", falling, normals}};

void check_errors(std::initializer_list<std::pair<Format, uint32_t>> tables) {
  for (const auto& [format, blocks] : tables) {
    const uint32_t n = blocks * 32;
    for (const Family& family : kFamilies) {
      const Figures figures = measure(family, format, n);
      EXPECT_LT(figures.largest_of_parallel, 0.5) << family.name << " " << n;
      for (uint32_t stage = 0; stage < 2; ++stage)
        for (size_t k = 0; k < 3; ++k) {
          const Figure& figure = figures.of[stage][k];
          if (std::isnan(figure.mean)) continue;
          const double want = above(kBeyond[k] / std::sqrt(n - 1.0), n - 1);
          // No sample is better than one of as many independent errors.
          const double error = std::max(figure.error, std::sqrt(want / (double{kSeeds} * kRows * kRows)));
          EXPECT_NEAR(figure.mean, want, 4 * error)
              << name(format) << ", " << n << " columns, " << family.name << ", stage " << stage + 1 << ", beyond "
              << kBeyond[k] << ": " << (figure.mean - want) / error << " standard errors, " << figure.mean / want
              << " times as often; the largest error of all is " << figures.largest[stage] << " standard deviations";
        }
    }
  }
}

TEST(EstimateErrors, AreThoseOfRandomDirections) {
  check_errors({{Format::q8, 4}, {Format::q8, 17}, {Format::q4, 17}});
}
// Half a minute: `./run soak`.
TEST(EstimateErrors, OfWideTables) { check_errors({{Format::q8, 32}, {Format::q4, 47}, {Format::q8, 64}}); }

}  // namespace
}  // namespace weft::test
