#include "reference/swiglu.h"

#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class SwigluTest : public GpuTest {};

void check_swiglu(const reference::Rows& gate_up, uint32_t tokens) {
  const uint32_t cols = gate_up.cols / 2, active = gate_up.rows;
  SCOPED_TRACE("cols " + std::to_string(cols) + " active " + std::to_string(active) + " of " + std::to_string(tokens));
  const auto device = open_device();
  const Activations in = make_activations(device, tokens, gate_up);
  const Buffer state = make_state(device, 9, 9 + active, 100), y = poisoned(device, "y", tokens * stride_of(cols));
  run_once(device, "swiglu", [&](Recorder& recorder) { ops::swiglu(recorder, state, in.buffer, y, cols, tokens); });
  const reference::Rows want = reference::swiglu(gate_up);
  // exp() may be off by 3 + 2 |gate| units in the last place, the rest by 5; results below fp32's normals may be zero.
  reference::Rows allowed(active, cols);
  for (uint32_t t = 0; t < active; ++t)
    for (uint32_t i = 0; i < cols; ++i)
      allowed.row(t)[i] = (8 + 2 * std::abs(gate_up.row(t)[i])) * kRounding * std::abs(want.row(t)[i]) +
                          0x1p-120 * std::abs(gate_up.row(t)[cols + i]);
  EXPECT_TRUE(close_to(download_as<float>(device, y), padded(want, tokens, stride_of(cols)),
                       padded(allowed, tokens, stride_of(cols))));
}

TEST_F(SwigluTest, AwkwardWidthsAndPartialChunks) {
  for (const uint32_t cols : {1u, 8u, 31u, 32u, 33u, 64u, 65u, 172u, 1536u})
    for (const uint32_t active : {1u, 3u, 8u}) {
      Random random(cols);
      reference::Rows gate_up(active, 2 * cols);
      for (double& value : gate_up.values) value = random.normal() * 3;
      check_swiglu(gate_up, 8);
      if (active == 1) check_swiglu(gate_up, 1);
    }
}

TEST_F(SwigluTest, FarGates) {
  const std::vector<double> gates = {0, -0.0, 1e-30, 20, 90, 1000, 1e30, -20, -80, -88.5, -90, -104, -1000, -1e30};
  reference::Rows gate_up(1, static_cast<uint32_t>(2 * gates.size()));
  for (size_t i = 0; i < gates.size(); ++i) {
    gate_up.values[i] = static_cast<float>(gates[i]);
    gate_up.values[gates.size() + i] = 1.5;
  }
  check_swiglu(gate_up, 1);
}

}  // namespace
}  // namespace weft::test
