#include <cmath>

#include "support/closeness.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class ResidualTest : public GpuTest {};

// y = x + z / (1 + exp(-z)) in double precision. Nothing after a row's columns is touched.
TEST_F(ResidualTest, AddsTheBranchOfEachRow) {
  const auto device = open_device();
  for (const uint32_t cols : {1u, 63u, 64u, 65u, 256u, 576u})
    for (const uint32_t rows : {1u, 3u, 7u}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(cols));
      const uint32_t stride = stride_of(cols);
      Random random(cols + rows);
      const std::vector<float> x = random.normals(stride), z = random.normals(size_t{rows} * stride, 10);
      const Buffer input = upload(device, "x", x), branches = upload(device, "z", z);
      const Buffer output = poisoned(device, "y", rows * stride);
      run_op(device, "residual",
             [&](Recorder& recorder) { ops::residual(recorder, input, branches, output, cols, rows); });
      const std::vector<float> got = download_as<float>(device, output);
      for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t i = 0; i < stride; ++i) {
          const size_t at = size_t{r} * stride + i;
          if (i >= cols) {
            ASSERT_TRUE(std::isnan(got[at])) << r << ", " << i;
            continue;
          }
          // exp() may be off by 3 + 2 |its argument| units in the last place.
          const double v = z[at], branch = v / (1 + std::exp(-v));
          ASSERT_NEAR(got[at], x[i] + branch,
                      ((8 + 8 * std::abs(v)) * std::abs(branch) + std::abs(x[i])) * kRounding + 1e-30)
              << r << ", " << i;
        }
    }
}

TEST_F(ResidualTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer small(device, "small", 256, Memory::device), large(device, "large", 1024, Memory::device);
  const auto run = [&](const Buffer& x, const Buffer& z, const Buffer& y) {
    run_op(device, "residual", [&](Recorder& recorder) { ops::residual(recorder, x, z, y, 65, 2); });
  };
  EXPECT_THROW(run(small, large, large), Error);
  EXPECT_THROW(run(large, small, large), Error);
  EXPECT_THROW(run(large, large, small), Error);
}

}  // namespace
}  // namespace weft::test
