#include "support/op_inputs.h"

namespace weft::test {
namespace {

class AddPositionsTest : public GpuTest {};

// x[t] += table[pos + t]; a sum of two floats is the nearest float.
TEST_F(AddPositionsTest, AddsTheRowOfEachPosition) {
  const auto device = open_device();
  for (const uint32_t cols : {1u, 31u, 32u, 33u, 172u, 768u})
    for (const uint32_t pos : {0u, 7u, 60u})
      for (const uint32_t active : {1u, 3u, 8u}) {
        SCOPED_TRACE("cols " + std::to_string(cols) + " pos " + std::to_string(pos) + " active " +
                     std::to_string(active));
        Random random(cols + pos);
        const Activations x = make_activations(device, 8, active, cols, random);
        const std::vector<float> rows = random.normals(64 * size_t{cols});
        const Buffer table = upload(device, "table", rows), state = make_state(device, pos, pos + active, 100);
        run_op(device, "add_positions",
               [&](Recorder& recorder) { ops::add_positions(recorder, state, table, x.buffer, cols, 8); });
        std::vector<float> got = download_as<float>(device, x.buffer);
        for (uint32_t t = 0; t < active; ++t)
          for (uint32_t i = 0; i < x.stride; ++i) {
            const bool adds = i < cols && pos + t < 64;  // after the table nothing is added
            const float before = i < cols ? static_cast<float>(x.values.row(t)[i]) : 0.0f;
            ASSERT_EQ(got[t * x.stride + i], before + (adds ? rows[(pos + t) * cols + i] : 0.0f)) << t << ", " << i;
          }
      }
}

}  // namespace
}  // namespace weft::test
