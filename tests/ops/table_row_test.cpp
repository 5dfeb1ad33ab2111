// Rows of a vocabulary table as they are stored: the rotated numbers, rounded, and what each row keeps for estimates.
// No device needed.
#include "ops/table_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

constexpr uint32_t kWidths[] = {1, 31, 32, 33, 64, 96, 172, 576, 1056};

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
double norm(std::span<const double> a) { return std::sqrt(dot(a, a)); }
double largest(std::span<const double> a) {
  double most = 0;
  for (const double value : a) most = std::max(most, std::abs(value));
  return most;
}

std::shared_ptr<const Basis> make_basis(uint32_t width, bool known, Random& random) {
  if (!known) return std::make_shared<const Basis>(width);
  std::vector<uint32_t> order(width);
  for (uint32_t i = 0; i < width; ++i) order[i] = width - 1 - i;
  const std::vector<float> mean = random.normals(width, 3);
  std::vector<float> scales(width);
  for (float& scale : scales) scale = std::exp(random.uniform(-1, 1));
  return std::make_shared<const Basis>(width, order, mean, scales);
}

// A row against the numbers that it stores, in the basis. An error of one fp32 rounding of the row's norm is allowed.
void check_row(const reference::TableRow& row, std::span<const double> want, Format format,
               std::span<const double> mean) {
  const uint32_t bits = bits_of(format);
  const double noise = 4e-6 * norm(want);
  ASSERT_EQ(row.values.size(), want.size());
  // Half a step of each number; no step is larger than the block needs, but by the half that it is rounded up to.
  const auto check_values = [&](size_t first, double step, double levels) {
    ASSERT_LE(step * levels, largest(want.subspan(first, 32)) * 1.001 + noise + levels * 0x1p-24);
    for (size_t i = first; i < first + 32; ++i) ASSERT_NEAR(row.values[i], want[i], 0.5 * step + noise) << i;
  };
  check_values(0, row.leading_scale / 256, 127.5 * 256);
  for (size_t block = 0; block < row.scales.size(); ++block)
    check_values(32 + block * 32, row.scales[block] / (bits == 16 ? 256 : 1),
                 bits == 4   ? 7.5
                 : bits == 8 ? 127
                             : 32767);
  const double product = dot(row.values, mean), product_noise = 4e-6 * norm(row.values) * norm(mean) + 0x1p-24;
  if (std::abs(product) < 65000) {
    ASSERT_NEAR(row.mean_product, product, std::abs(product) * 0x1p-11 + product_noise);
  } else {
    ASSERT_GE(std::abs(row.mean_product), 65000);
  }
  const std::span<const double> rest = std::span(want).subspan(32), stored = std::span(row.values).subspan(32);
  for (uint32_t stage = 0; stage < (format == Format::q4 ? 2u : 3u); ++stage) {
    SCOPED_TRACE("stage " + std::to_string(stage));
    const double t = row.stages[stage].factor, error = row.stages[stage].error;
    const std::vector<double> known = row.known(stage, bits);
    std::vector<double> left(stored.begin(), stored.end());
    for (size_t i = 0; i < left.size(); ++i) left[i] -= t * known[i];
    const double along = dot(known, rest), exact = along > 0 ? dot(stored, rest) / along : 0;
    const double unsure = 1e-5 * norm(known) * norm(rest);
    if (t > 0) {
      ASSERT_NEAR(dot(left, rest), 0, along * (t * 0x1p-11 + 0x1p-24) + 1e-5 * norm(stored) * norm(rest) + t * unsure);
    } else if (along > unsure) {
      ASSERT_TRUE(exact < 0x1p-24 || exact > 65000) << "a factor of " << exact << " is not noted";
    }
    ASSERT_TRUE(t >= 0 && std::isfinite(t)) << t;
    ASSERT_GE(error, norm(left));
    if (std::abs(product) > 65504) {
      ASSERT_EQ(error, INFINITY) << "nothing may be estimated";
    } else if (norm(left) < 65000) {
      ASSERT_LE(error, norm(left) * 1.002 + 0x1p-23);
    }
  }
}

void check_table(Format format, uint32_t width, const std::vector<std::vector<float>>& rows, bool known) {
  SCOPED_TRACE(std::string(name(format)) + ", " + std::to_string(width) + " columns" + (known ? ", known" : ""));
  Random random(width);
  const auto basis = make_basis(width, known, random);
  std::vector<float> values;
  for (const std::vector<float>& row : rows) values.insert(values.end(), row.begin(), row.end());
  const TensorView tensor = {"t", DType::f32, {rows.size(), width}, std::as_bytes(std::span(values))};
  const std::vector<std::byte> bytes = pack_table(format, tensor, basis);
  ASSERT_EQ(bytes.size(), (rows.size() + 63) / 64 * reference::table_tile_bytes(bits_of(format), width));
  const reference::TableBasis turn(basis->words());
  for (uint32_t r = 0; r < rows.size(); ++r) {
    SCOPED_TRACE("row " + std::to_string(r));
    check_row(reference::read_table_row(bytes, bits_of(format), width, r), turn.row(doubles(rows[r])), format,
              turn.mean);
    if (testing::Test::HasFatalFailure()) return;
  }
  // The last tile's other rows are zeros.
  for (uint32_t r = static_cast<uint32_t>(rows.size()); r % 64 != 0; ++r) {
    const reference::TableRow row = reference::read_table_row(bytes, bits_of(format), width, r);
    ASSERT_EQ(largest(row.values), 0);
    ASSERT_EQ(row.leading_scale, 0);
    ASSERT_EQ(row.mean_product, 0);
    for (const reference::TableStage& stage : row.stages) ASSERT_TRUE(stage.factor == 0 && stage.error == 0);
  }
}

TEST(TableRow, HoldsTheRotatedRowAndItsNotes) {
  for (const Format format : kFormats)
    for (const uint32_t width : kWidths)
      for (const bool known : {false, true}) {
        Random random(width);
        std::vector<std::vector<float>> rows;
        for (int i = 0; i < 66; ++i) rows.push_back(random.normals(width, std::exp(random.uniform(-9, 3))));
        check_table(format, width, rows, known);
        if (HasFatalFailure()) return;
      }
}

TEST(TableRow, HoldsOddRows) {
  for (const Format format : kFormats)
    for (const uint32_t width : kWidths)
      for (const bool known : {false, true}) {
        const auto one_hot = [&](uint32_t column, float value) {
          std::vector<float> row(width);
          row[column] = value;
          return row;
        };
        Random random(width);
        std::vector<float> half_zero = random.normals(width);
        for (uint32_t i = 0; i < width / 2; ++i) half_zero[i] = 0;
        check_table(
            format, width,
            {std::vector<float>(width), one_hot(0, 65504), one_hot(width - 1, -65504), std::vector<float>(width, 1),
             std::vector<float>(width, 65504), std::vector<float>(width, 1e-40f), random.normals(width, 1e-39f),
             random.normals(width, 1e-8f), random.normals(width, 1e-5f), half_zero},
            known);
        if (HasFatalFailure()) return;
      }
}

// The row that the rotation turns into one huge number: larger than any number of the file, and of the halves.
TEST(TableRow, HoldsARowThatTheRotationGathers) {
  const uint32_t width = 1056;
  const auto basis = std::make_shared<const Basis>(width);
  const reference::TableBasis turn(basis->words());
  std::vector<double> column(width);
  column[width - 5] = 1;
  const std::vector<double> spread = turn.row_back(column);
  const double unit = 65504 / largest(spread);  // the row is within what the file may hold
  std::vector<float> gathered;
  for (const double value : spread) gathered.push_back(static_cast<float>(value * unit));
  for (const Format format : kFormats) {
    const TensorView tensor = {"t", DType::f32, {1, width}, std::as_bytes(std::span(gathered))};
    const reference::TableRow row =
        reference::read_table_row(pack_table(format, tensor, basis), bits_of(format), width, 0);
    for (const double value : row.values) ASSERT_TRUE(std::isfinite(value)) << name(format);
    EXPECT_GT(unit, 4e5);
    const double most = format == Format::q4 ? std::min(unit, 65504 * 7.0) : unit;
    EXPECT_NEAR(row.values[width - 5], most, most / 1000) << name(format);
    for (const reference::TableStage& stage : row.stages) EXPECT_TRUE(std::isfinite(stage.factor)) << name(format);
  }
}

// Every bit pattern a row can have is read back: the integers of a row of all levels.
TEST(TableRow, EveryLevelIsUsed) {
  for (const Format format : {Format::q4, Format::q8}) {
    Random random(1);
    const std::vector<float> values = random.normals(size_t{64} * 1056);
    const TensorView tensor = {"t", DType::f32, {64, 1056}, std::as_bytes(std::span(values))};
    const std::vector<std::byte> bytes = pack_table(format, tensor, std::make_shared<const Basis>(1056));
    std::vector<int32_t> seen;
    for (uint32_t r = 0; r < 64; ++r)
      for (const int32_t i : reference::read_table_row(bytes, bits_of(format), 1056, r).integers) seen.push_back(i);
    std::ranges::sort(seen);
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    EXPECT_GE(seen.size(), format == Format::q4 ? 15u : 255u);  // 8 bits keep to -127 .. 127, 4 to -7.5 .. 7.5
    EXPECT_LE(seen.front(), format == Format::q4 ? -7 : -127);
    EXPECT_EQ(seen.back(), format == Format::q4 ? 7 : 127);
  }
}

TEST(TableRow, TellsWhatRoundingDid) {
  Random random(2);
  const std::vector<float> values = random.normals(size_t{3} * 96);
  const TensorView tensor = {"t", DType::f32, {3, 96}, std::as_bytes(std::span(values))};
  const auto basis = std::make_shared<const Basis>(96);
  const reference::TableBasis turn(basis->words());
  for (const Format format : kFormats) {
    TableRowPacker packer(format, *basis);
    std::vector<std::byte> tile(reference::table_tile_bytes(bits_of(format), 96));
    Rounding rounding;
    double error = 0, most = 0;
    for (uint32_t r = 0; r < 3; ++r) {
      packer.pack(tensor, r, tile.data(), r, rounding);
      const std::vector<double> want = turn.row(doubles({values.begin() + r * 96, values.begin() + (r + 1) * 96})),
                                got = reference::read_table_row(tile, bits_of(format), 96, r).values;
      for (size_t i = 0; i < 96; ++i) error = std::max(error, std::abs(got[i] - want[i]));
      most = std::max(most, largest(want));
    }
    EXPECT_NEAR(rounding.largest_error, error, 1e-5) << name(format);
    EXPECT_NEAR(rounding.largest_value, most, 1e-5) << name(format);
  }
}

TEST(TableRow, RefusesWhatHalvesDoNotHold) {
  for (const float bad : {NAN, INFINITY, -INFINITY, 65520.0f, -1e30f})
    for (const Format format : kFormats) {
      std::vector<float> values(size_t{70} * 65, 1);
      values[66 * 65 + 64] = bad;
      const TensorView tensor = {"token_embd.weight", DType::f32, {70, 65}, std::as_bytes(std::span(values))};
      try {
        pack_table(format, tensor, std::make_shared<const Basis>(65));
        ADD_FAILURE() << bad << " was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::unsupported);
        const std::string what = error.what();
        EXPECT_NE(what.find("token_embd.weight"), std::string::npos) << what;
        EXPECT_NE(what.find("(66, 64)"), std::string::npos) << what;
      }
    }
}

TEST(TableRow, BytesOfTheStagesAddUp) {
  for (const Format format : kFormats)
    for (const uint32_t width : kWidths) {
      SCOPED_TRACE(std::string(name(format)) + " " + std::to_string(width));
      const PlaneBytes bytes = plane_bytes(format, width);
      const uint32_t rest = (width + 31) / 32 - 1;
      const Matrix matrix = {format, TILE_ROWS, width, {}, Layout::planes};
      EXPECT_EQ(uint64_t{bytes.whole} * TILE_ROWS, matrix.tile_bytes());
      EXPECT_EQ(matrix.tile_bytes(), reference::table_tile_bytes(bits_of(format), width));
      EXPECT_EQ(matrix.tile_bytes() % 256, 0u);
      EXPECT_EQ(bytes.estimates[HEAD_LEADING], 48u);
      EXPECT_EQ(bytes.estimates[HEAD_SIGNS], 48 + (rest + 3) / 4 * 16);
      EXPECT_EQ(bytes.estimates[HEAD_TWO_BITS], 48 + 2 * ((rest + 3) / 4 * 16));
      // Rest of the whole row: the lower halves of the leading columns, and the planes that only products read.
      const uint32_t low = (format == Format::q4 ? 0 : format == Format::q8 ? 16 : 48) * rest;
      EXPECT_EQ(bytes.estimates[HEAD_FOUR_BITS] + 32 + low, bytes.whole);
    }
}

// Bytes a row beyond plain q8: 16 of the header, 30 for the leading columns' 16 bits, and padding of parts to words.
TEST(TableRow, AtMostEightyBytesMoreThanPlainQ8) {
  for (uint32_t cols = 32; cols <= 8192; cols += 32) {
    const Matrix planes = {Format::q8, 6400, cols, {}, Layout::planes};
    EXPECT_LE(planes.bytes(), packed_bytes(Format::q8, 6400, cols) + 6400 * 80) << cols;
  }
}

}  // namespace
}  // namespace weft::test
