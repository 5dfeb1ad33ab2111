#include "support/op_inputs.h"

namespace weft::test {
namespace {

class ReadBandwidthTest : public GpuTest {};

// The kernel writes its sum only if that is a value of no real data, so that a compiler cannot leave out the reads.
TEST_F(ReadBandwidthTest, WritesNothingButTheOneSum) {
  const auto device = open_device();
  for (const uint32_t groups : {1u, 2u, 7u}) {
    std::vector<uint32_t> data(size_t{groups} * READ_BYTES / 4);
    const Buffer plain = upload(device, "words", data), sums = poisoned(device, "sums", groups);
    run_op(device, product("read_bandwidth", device->plan()),
           [&](Recorder& recorder) { ops::read_bandwidth(recorder, plain, sums); });
    for (const uint32_t sum : download_as<uint32_t>(device, sums)) EXPECT_EQ(sum, kPoison);
    data.back() = 0x5eed5eed;  // the last word is read, and its lane's sum is the one
    const Buffer marked = upload(device, "words", data);
    run_op(device, product("read_bandwidth", device->plan()),
           [&](Recorder& recorder) { ops::read_bandwidth(recorder, marked, sums); });
    const std::vector<uint32_t> got = download_as<uint32_t>(device, sums);
    for (uint32_t i = 0; i < groups; ++i) EXPECT_EQ(got[i], i + 1 == groups ? 0x5eed5eed : kPoison) << i;
  }
}

}  // namespace
}  // namespace weft::test
