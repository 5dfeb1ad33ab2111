#include "support/op_inputs.h"

namespace weft::test {
namespace {

class AddTest : public GpuTest {};

// A sum of two floats is the nearest float; nothing after the last is touched.
TEST_F(AddTest, AddsInPlace) {
  const auto device = open_device();
  for (const uint32_t count : {1u, 63u, 64u, 65u, 1000u, 32128u}) {
    SCOPED_TRACE(count);
    Random random(count);
    const std::vector<float> x = random.normals(count + 1), y = random.normals(count + 1);
    const Buffer from = upload(device, "x", x), to = upload(device, "y", y);
    run_op(device, "add", [&](Recorder& recorder) { ops::add(recorder, from, to, count); });
    const std::vector<float> got = download_as<float>(device, to);
    for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(got[i], x[i] + y[i]) << i;
    EXPECT_EQ(got[count], y[count]);
  }
}

TEST_F(AddTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer small(device, "small", 256, Memory::device), large(device, "large", 512, Memory::device);
  const auto run = [&](const Buffer& x, const Buffer& y) {
    run_op(device, "add", [&](Recorder& recorder) { ops::add(recorder, x, y, 65); });
  };
  EXPECT_THROW(run(small, large), Error);
  EXPECT_THROW(run(large, small), Error);
}

}  // namespace
}  // namespace weft::test
