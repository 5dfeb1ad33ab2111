#include "reference/gather.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/native_blocks.h"

namespace weft::test {
namespace {

constexpr Layout kLayouts[] = {Layout::values, Layout::planes};

class GatherTest : public GpuTest {};

// Gathers ids[pos .. end) in passes of `tokens`, and compares with the reference.
void check_gather(const Tuning& tuning, Layout layout, Format format, uint32_t rows, uint32_t cols,
                  const std::vector<uint32_t>& ids, uint32_t pos, uint32_t tokens, float scale = 1, bool adds = false) {
  SCOPED_TRACE(tuning.name() + (layout == Layout::planes ? " planes " : " values ") + name(format) + " rows " +
               std::to_string(rows) + " cols " + std::to_string(cols) + " pos " + std::to_string(pos) + " tokens " +
               std::to_string(tokens));
  const auto device = open_device(tuning);
  const Tiled table = make_tiled(device, format, rows, cols, rows * 31 + cols, layout);
  const uint32_t end = static_cast<uint32_t>(ids.size());
  const Buffer state = make_state(device, pos, end, end), history = upload(device, "history", ids);
  const std::vector<float> before = Random(cols).normals(size_t{tokens} * stride_of(cols));
  const Buffer x = adds ? upload(device, "x", before) : poisoned(device, "x", before.size());
  run_op(device, "gather", [&](Recorder& recorder) {
    ops::gather(recorder, table.matrix, state, history, x, tokens, scale, adds ? ops::Output::add : ops::Output::write);
  });
  const uint32_t active = std::min(tokens, end - pos);
  reference::Rows want = reference::gather(table.values, std::span(ids).subspan(pos, active));
  for (double& value : want.values) value *= scale;
  // Rounding of a value: native formats have each bit that the file's type gives, f16 is exact; q8 multiplies once, q4
  // adds once. Planes multiply once: their integers have 16 bits at most. A scale multiplies once more.
  std::vector<double> expected = padded(want, tokens, stride_of(cols));
  std::vector<float> got = download_as<float>(device, x);
  if (adds)
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(!std::isnan(expected[i]) || got[i] == before[i]) << "element " << i << " has been written";
      expected[i] = std::isnan(expected[i]) ? got[i] : expected[i] + before[i];
    }
  const double rounding = is_native(format) ? 0 : kRounding;
  EXPECT_TRUE(close_to(got, expected, adds ? 8 * kRounding : scale == 1 ? rounding : rounding + kRounding));
}

TEST_F(GatherTest, AwkwardShapes) {
  for (const Layout layout : kLayouts)
    for (const Format format : kFormats)
      for (const uint32_t rows : {1u, 3u, 64u, 65u, 200u})
        for (const uint32_t cols : {1u, 8u, 31u, 32u, 33u, 64u, 96u, 172u, 576u}) {
          Random random(rows + cols);
          std::vector<uint32_t> ids(9);
          for (uint32_t& id : ids) id = random.below(rows);
          ids[0] = rows - 1;
          check_gather({}, layout, format, rows, cols, ids, 0, 1);
          check_gather({}, layout, format, rows, cols, ids, 2, 16);  // 7 tokens of 16
        }
}

TEST_F(GatherTest, NativeFormats) {
  for (const Format format : kNativeFormats)
    for (const uint32_t blocks : {1u, 3u}) {
      const uint32_t cols = blocks * block_elements(file_type(format));
      check_gather({}, Layout::values, format, 65, cols, {64, 0, 33, 3}, 1, 4);
      check_gather({}, Layout::values, format, 3, cols, {2}, 0, 1, 0.5f, true);
    }
}

// Any scale of a file, subnormal or large: the device decodes the file's numbers to the last bit.
TEST_F(GatherTest, EveryScale) {
  const auto device = open_device();
  Random random(3);
  for (const Format format : kNativeFormats)
    for (const DType type : info(format).from) {
      SCOPED_TRACE(name(type));
      const uint32_t rows = 66, cols = 3 * static_cast<uint32_t>(block_elements(type)), stride = stride_of(cols);
      std::string blocks = random_blocks(type, rows, cols, random);
      for (size_t at = 0; type == DType::mxfp4 && at < blocks.size(); at += block_bytes(type))
        blocks[at] = static_cast<char>(8 + random.below(240));  // no subnormal floats
      const TensorView tensor = {"t", type, {rows, cols}, std::as_bytes(std::span(blocks))};
      const Tiled table = tile(device, format, rows, cols, tensor);
      std::vector<uint32_t> ids(rows);
      std::iota(ids.begin(), ids.end(), 0u);
      const Buffer state = make_state(device, 0, rows, rows), history = upload(device, "history", ids),
                   x = poisoned(device, "x", size_t{rows} * stride);
      run_op(device, "gather", [&](Recorder& r) { ops::gather(r, table.matrix, state, history, x, rows); });
      const std::vector<float> got = download_as<float>(device, x);
      std::vector<float> want(size_t{rows} * cols);
      to_float(tensor, 0, want);
      for (uint32_t row = 0; row < rows; ++row)
        for (uint32_t c = 0; c < cols; ++c)
          ASSERT_EQ(got[size_t{row} * stride + c], want[size_t{row} * cols + c]) << row << ", " << c;
    }
}

TEST_F(GatherTest, Scales) {
  for (const Layout layout : kLayouts)
    for (const Format format : kFormats) {
      check_gather({}, layout, format, 65, 33, {64, 0, 3}, 0, 8, std::sqrt(33.0f));
      check_gather({}, layout, format, 65, 172, {64, 0, 3}, 2, 1, 0.125f);
    }
}

TEST_F(GatherTest, Adds) {
  for (const Format format : kFormats) {
    check_gather({}, Layout::values, format, 65, 172, {64, 0, 3, 64}, 1, 8, 2.5f, true);
    check_gather({}, Layout::values, format, 200, 33, {199, 1, 65}, 0, 1, 0.5f, true);
  }
}

TEST_F(GatherTest, EveryRowOfManySlices) {
  Tuning tuning;
  tuning.slice_bytes = 1 << 20;
  const uint32_t rows = 70000;
  std::vector<uint32_t> ids(rows);
  for (uint32_t i = 0; i < rows; ++i) ids[i] = static_cast<uint32_t>(uint64_t{i} * 48271 % rows);  // every row once
  for (const Layout layout : kLayouts) {
    for (const Format format : {Format::f16, Format::q8})
      for (const uint32_t pos : {0u, rows / 2}) check_gather(tuning, layout, format, rows, 40, ids, pos, rows / 2);
    // Rows at the borders of the slices.
    Matrix matrix = {Format::q8, rows, 40, View(), layout};
    const Buffer none;
    matrix.view = View(none, 0, matrix.bytes());
    std::vector<uint32_t> borders;
    for (const Matrix::Slice& slice : matrix.slices(tuning.slice_bytes)) {
      borders.push_back(slice.row_base);
      borders.push_back(slice.row_base + slice.rows - 1);
    }
    EXPECT_GT(borders.size(), 6u);
    check_gather(tuning, layout, Format::q8, rows, 40, borders, 0, 64);
  }
}

TEST_F(GatherTest, IdOutsideTheTableLeavesItsRow) {
  const auto device = open_device();
  for (const Layout layout : kLayouts) {
    const Tiled table = make_tiled(device, Format::f16, 65, 33, 1, layout);
    const Buffer state = make_state(device, 0, 3, 3);
    const Buffer history = upload(device, "history", std::vector<uint32_t>{64, 65, 0xffffffff});
    const Buffer x = poisoned(device, "x", 3 * 64);
    run_op(device, "gather", [&](Recorder& recorder) { ops::gather(recorder, table.matrix, state, history, x, 3); });
    const std::vector<uint32_t> first = {64};
    EXPECT_TRUE(close_to(download_as<float>(device, x), padded(reference::gather(table.values, first), 3, 64),
                         layout == Layout::planes ? kRounding : 0.0));
  }
}

}  // namespace
}  // namespace weft::test
