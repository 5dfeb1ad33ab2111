#include "reference/project.h"

#include "reference/matmul.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class ProjectTest : public GpuTest {};

void check_project(const Tuning& tuning, Format format, uint32_t rows, uint32_t cols, uint32_t tokens) {
  const auto device = open_device(tuning);
  SCOPED_TRACE(tuning.name() + " " + name(format) + " rows " + std::to_string(rows) + " cols " + std::to_string(cols) +
               " tokens " + std::to_string(tokens));
  Random random(rows + cols);
  const Tiled table = make_tiled(device, format, rows, cols, rows * 5 + cols, Layout::planes);
  const Activations x = make_activations(device, tokens, tokens, cols, random);
  const Buffer logits = poisoned(device, "logits", uint64_t{tokens + 1} * stride_of(rows));
  run_once(device, "project",
           [&](Recorder& recorder) { ops::project(recorder, table.matrix, x.buffer, logits, tokens); });
  const uint32_t stride = stride_of(rows);  // what lies behind the rows, and a token too many, must stay untouched
  const reference::Rows logits_of = reference::project(table.values, x.values),
                        magnitudes = reference::matmul_magnitude(table.values, x.values);
  std::vector<double> want(size_t{tokens + 1} * stride, kUntouched), allowed(want.size());
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t i = 0; i < rows; ++i) {
      want[size_t{t} * stride + i] = logits_of.row(t)[i];
      allowed[size_t{t} * stride + i] = magnitudes.row(t)[i] * dot_error(cols);
    }
  EXPECT_TRUE(close_to(download_as<float>(device, logits), want, allowed));
}

TEST_F(ProjectTest, AwkwardShapes) {
  for (const Tuning& tuning : product_tunings())
    for (const Format format : kFormats)
      for (const uint32_t rows : {1u, 3u, 65u, 300u})
        for (const uint32_t cols : {1u, 31u, 33u, 172u, 576u}) {
          check_project(tuning, format, rows, cols, 1);
          if (cols == 33 || cols == 172)
            for (const uint32_t tokens : {2u, 8u, 16u}) check_project(tuning, format, rows, cols, tokens);
        }
}

TEST_F(ProjectTest, ManySlices) {
  Tuning tuning;
  tuning.slice_bytes = 1 << 20;
  for (const Format format : kFormats) {
    check_project(tuning, format, 70000, 72, 1);
    check_project(tuning, format, 20000, 40, 8);
  }
}

TEST_F(ProjectTest, RefusesATileThatDoesNotFit) {
  Tuning tuning;
  tuning.slice_bytes = 4096;  // one tile of 33 columns needs 8,448 bytes
  const auto device = open_device(tuning);
  const Tiled table = make_tiled(device, Format::f16, 65, 33, 1, Layout::planes);
  const Buffer x = poisoned(device, "x", 64), logits = poisoned(device, "logits", 65);
  try {
    run_once(device, "project", [&](Recorder& recorder) { ops::project(recorder, table.matrix, x, logits, 1); });
    FAIL() << "a slice of 4096 bytes was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_NE(error.sentence().find("8448"), std::string::npos) << error.what();
    EXPECT_NE(error.sentence().find("4096"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace weft::test
