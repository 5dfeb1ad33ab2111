#include "reference/project.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/matmul.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class ProjectTest : public GpuTest {};

void check_project(const Tuning& tuning, Format format, uint32_t rows, uint32_t cols, uint32_t tokens,
                   Layout layout = Layout::planes) {
  const auto device = open_device(tuning);
  SCOPED_TRACE(tuning.name() + " " + name(format) + " rows " + std::to_string(rows) + " cols " + std::to_string(cols) +
               " tokens " + std::to_string(tokens));
  Random random(rows + cols);
  const Tiled table = make_tiled(device, format, rows, cols, rows * 5 + cols, layout);
  const Activations x = make_activations(device, tokens, tokens, table.values.cols, random);
  const Buffer logits = poisoned(device, "logits", uint64_t{tokens + 1} * stride_of(rows));
  run_op(device, split_product("project", device->plan()),
         [&](Recorder& recorder) { ops::project(recorder, table.matrix, x.buffer, logits, tokens); });
  const uint32_t stride = stride_of(rows);  // what lies after the rows, and a token too many, must stay untouched
  const reference::Rows logits_of = reference::project(table.values, x.values),
                        magnitudes = reference::matmul_magnitude(table.values, x.values);
  std::vector<double> want(size_t{tokens + 1} * stride, kUntouched), allowed(want.size());
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t i = 0; i < rows; ++i) {
      want[size_t{t} * stride + i] = logits_of.row(t)[i];
      allowed[size_t{t} * stride + i] = magnitudes.row(t)[i] * dot_error(table.values.cols);
    }
  EXPECT_TRUE(close_to(download_as<float>(device, logits), want, allowed));
}

// Every number of columns has a pipeline of its own.
TEST_F(ProjectTest, AwkwardShapes) {
  for (const Format format : kFormats)
    for (const uint32_t rows : {1u, 3u, 65u, 300u}) {
      for (const uint32_t cols : {1u, 31u, 32u, 64u, 96u, 576u}) check_project({}, format, rows, cols, 1);
      for (const uint32_t tokens : {1u, 2u, 8u, 16u}) check_project({}, format, rows, 172, tokens);
      for (const Tuning& tuning : product_tunings())
        for (const uint32_t tokens : {1u, 8u}) check_project(tuning, format, rows, 33, tokens);
    }
}

// Tables without a basis, of any format: their rows are stored as a layer's.
TEST_F(ProjectTest, WholeValues) {
  for (const Format format : kAllFormats) {
    const uint32_t cols = is_native(format) ? 2 * block_elements(file_type(format)) : 172;
    for (const uint32_t tokens : {1u, 8u}) check_project({}, format, 65, cols, tokens, Layout::values);
  }
  for (const Tuning& tuning : product_tunings())
    for (const Format format : {Format::q6, Format::q5_0, Format::q8})
      check_project(tuning, format, 300, format == Format::q8 ? 33 : 256, 2, Layout::values);
  check_project({.slice_bytes = 1 << 20}, Format::q6, 20000, 256, 1, Layout::values);
}

TEST_F(ProjectTest, ManySlices) {
  Tuning tuning;
  tuning.slice_bytes = 1 << 20;
  for (const Format format : kFormats) {
    check_project(tuning, format, 70000, 72, 1);
    check_project(tuning, format, 20000, 40, 8);
  }
}

// The best of each workgroup's rows, from the logits that the same device computes: all bits are theirs.
void check_best(const Tuning& tuning, Format format, uint32_t rows, uint32_t cols, uint32_t tokens, bool spoilt,
                Layout layout = Layout::planes) {
  const auto device = open_device(tuning);
  SCOPED_TRACE(tuning.name() + " " + name(format) + " rows " + std::to_string(rows) + " cols " + std::to_string(cols) +
               " tokens " + std::to_string(tokens) + (spoilt ? " spoilt" : ""));
  Random random(rows + cols + tokens);
  std::vector<float> values(size_t{rows} * cols);
  for (float& value : values) value = random.normal();
  // Equal rows, of which the lowest id must win, and rows whose logits are no numbers, which never do.
  for (uint32_t row = 0; row < rows; ++row) {
    float* const from = values.data() + size_t{row} * cols;
    if (row % 3 == 1) std::copy_n(from - cols, cols, from);
    if (spoilt) from[0] = row % 5 == 2 ? 6e4f : 0;
  }
  const Tiled table = tile(device, format, rows, cols,
                           {"table", DType::f32, {rows, cols}, std::as_bytes(std::span<const float>(values))}, layout);
  const Activations x = make_activations(device, tokens, tokens, table.matrix.blocks() * BLOCK, random);
  const float huge[] = {1e35f};  // times 6e4 it is infinite
  if (spoilt) Uploader(device).upload(View(x.buffer, 0, 4), std::span<const float>(huge));
  const uint32_t count = ops::best_count(device->plan(), table.matrix), stride = count + 3;
  const Buffer logits = poisoned(device, "logits", uint64_t{tokens + 1} * stride_of(rows)),
               candidates = poisoned(device, "candidates", uint64_t{tokens} * stride * 2);
  run_op(device, split_product("project", device->plan()), [&](Recorder& recorder) {
    ops::project(recorder, table.matrix, x.buffer, logits, tokens);
    ops::project_best(recorder, table.matrix, x.buffer, candidates, stride, tokens);
  });
  const std::vector<float> of_rows = download_as<float>(device, logits);
  const std::vector<float> left = download_as<float>(device, candidates);
  std::vector<abi::Candidate> found(left.size() / 2);
  std::memcpy(found.data(), left.data(), left.size() * 4);
  for (uint32_t t = 0; t < tokens; ++t) {
    uint32_t id = NO_ROW, best = NO_ROW;
    for (uint32_t row = 0; row < rows; ++row) {
      const float logit = of_rows[size_t{t} * stride_of(rows) + row];
      if (std::isfinite(logit) && (id == NO_ROW || logit > of_rows[size_t{t} * stride_of(rows) + id])) id = row;
    }
    float score = -3.4e38f;
    for (uint32_t i = 0; i < count; ++i) {
      const abi::Candidate& candidate = found[size_t{t} * stride + i];
      if (candidate.score > score || (candidate.score == score && candidate.id < best))
        score = candidate.score, best = candidate.id;
      if (candidate.id == NO_ROW) continue;
      ASSERT_LT(candidate.id, rows) << "token " << t << " group " << i;
      EXPECT_EQ(candidate.score, of_rows[size_t{t} * stride_of(rows) + candidate.id])
          << "token " << t << " group " << i;
    }
    EXPECT_EQ(best, id) << "token " << t;
    for (uint32_t i = count * 2; i < stride * 2; ++i) EXPECT_TRUE(std::isnan(left[size_t{t} * stride * 2 + i]));
  }
}

// Projects some rows alone: gives their logits and the best of these, with the same bits as for all rows, and no
// others. Also parts of a table in several slices.
TEST_F(ProjectTest, Ranges) {
  const std::vector<ops::RowRange> few = {{0, 64}, {128, 100}, {256, 44}}, many = {{64, 5000}, {19968, 32}};
  for (const bool sliced : {false, true}) {
    SCOPED_TRACE(sliced);
    Tuning tuning;
    if (sliced) tuning.slice_bytes = 1 << 18;
    const auto device = open_device(tuning);
    const uint32_t rows = sliced ? 20000 : 300, cols = 40, tokens = 2;
    const std::vector<ops::RowRange>& ranges = sliced ? many : few;
    Random random(rows);
    const Tiled table = make_tiled(device, Format::q8, rows, cols, 3, Layout::planes);
    const Activations x = make_activations(device, tokens, tokens, table.matrix.blocks() * BLOCK, random);
    const uint32_t count = ops::best_count(device->plan(), table.matrix, ranges);
    const Buffer logits = poisoned(device, "logits", uint64_t{tokens} * stride_of(rows)),
                 some = poisoned(device, "some logits", uint64_t{tokens} * stride_of(rows)),
                 candidates = poisoned(device, "candidates", uint64_t{tokens} * count * 2);
    run_op(device, split_product("project", device->plan()), [&](Recorder& recorder) {
      ops::project(recorder, table.matrix, x.buffer, logits, tokens);
      ops::project(recorder, table.matrix, x.buffer, some, tokens, ranges);
      ops::project_best(recorder, table.matrix, x.buffer, candidates, count, tokens, ranges);
    });
    const std::vector<float> of_rows = download_as<float>(device, logits), of_some = download_as<float>(device, some);
    const auto asked = [&](size_t row) {
      return std::ranges::any_of(
          ranges, [&](const ops::RowRange& range) { return row >= range.first && row < range.first + range.count; });
    };
    for (size_t i = 0; i < of_some.size(); ++i) {
      if (asked(i % stride_of(rows)))
        ASSERT_EQ(of_some[i], of_rows[i]) << i;
      else
        ASSERT_TRUE(std::isnan(of_some[i])) << i;
    }
    const auto found = download_as<abi::Candidate>(device, candidates);
    for (uint32_t t = 0; t < tokens; ++t) {
      uint32_t want = NO_ROW, got = NO_ROW;
      const auto logit = [&](uint32_t row) { return of_rows[size_t{t} * stride_of(rows) + row]; };
      for (const ops::RowRange& range : ranges)
        for (uint32_t row = range.first; row < range.first + range.count; ++row)
          if (want == NO_ROW || logit(row) > logit(want)) want = row;
      for (uint32_t i = 0; i < count; ++i) {
        const abi::Candidate& one = found[size_t{t} * count + i];
        if (one.id == NO_ROW) continue;
        ASSERT_TRUE(asked(one.id)) << one.id;
        EXPECT_EQ(one.score, logit(one.id));
        if (got == NO_ROW || one.score > logit(got)) got = one.id;
      }
      EXPECT_EQ(got, want) << "token " << t;
    }
    for (const ops::RowRange& wrong : {ops::RowRange{32, 64}, {0, 0}, {rows / 64 * 64, rows % 64 + 1}})
      EXPECT_THROW(ops::best_count(device->plan(), table.matrix, {&wrong, 1}), Error);
  }
}

TEST_F(ProjectTest, LeavesTheBest) {
  size_t any = 0;
  for (const Tuning& tuning : product_tunings())
    for (const uint32_t rows : {1u, 300u}) check_best(tuning, kFormats[any++ % 3], rows, 33, 1, false);
  for (const Format format : kFormats) check_best({}, format, 65, 33, 8, false);
  check_best({}, Format::f16, 300, 33, 16, true);
  for (const Format format : {Format::f16, Format::q8}) check_best({}, format, 300, 32, 2, false, Layout::values);
  Tuning sliced;
  sliced.slice_bytes = 1 << 18;
  check_best(sliced, Format::q8, 20000, 40, 2, false);
}

// A lane loads the blocks of its row one by one, and multiplies part of one at a time.
TEST_F(ProjectTest, OfFewestRegisters) {
  for (const uint32_t split : {1u, 4u}) {
    const Tuning fewest = {.split = split, .row_tiles = 1, .texel_products = false, .fewest_registers = true};
    for (const Format format : kFormats)
      for (const uint32_t cols : {1u, 33u, 576u}) check_project(fewest, format, 65, cols, 1);
    for (const Format format : kFormats) check_best(fewest, format, 300, 172, 1, false);
  }
}

TEST_F(ProjectTest, RefusesATileThatDoesNotFit) {
  Tuning tuning;
  tuning.slice_bytes = 4096;  // one tile of 33 columns needs 11,520 bytes
  const auto device = open_device(tuning);
  const Tiled table = make_tiled(device, Format::f16, 65, 33, 1, Layout::planes);
  const Buffer x = poisoned(device, "x", 64), logits = poisoned(device, "logits", 65);
  try {
    run_op(device, split_product("project", device->plan()),
           [&](Recorder& recorder) { ops::project(recorder, table.matrix, x, logits, 1); });
    FAIL() << "a slice of 4096 bytes was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_NE(error.sentence().find("11520"), std::string::npos) << error.what();
    EXPECT_NE(error.sentence().find("4096"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft::test
