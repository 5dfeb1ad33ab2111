#include "reference/activate.h"

#include <cmath>

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class ActivateTest : public GpuTest {};

using ops::Activation;
constexpr Activation kAll[] = {Activation::silu, Activation::gelu,    Activation::gelu_tanh,   Activation::relu,
                               Activation::tanh, Activation::clamped, Activation::relu_squared};

void check_activate(Activation activation, bool gated, const reference::Rows& values, uint32_t tokens,
                    uint32_t copies = 1) {
  const uint32_t cols = gated ? values.cols / 2 : values.cols, active = values.rows;
  SCOPED_TRACE("activation " + std::to_string(static_cast<int>(activation)) + (gated ? " gated" : "") + " cols " +
               std::to_string(cols) + " active " + std::to_string(active) + " of " + std::to_string(tokens));
  const auto device = open_device();
  const Activations in = make_activations(device, tokens, values);
  const Buffer state = make_state(device, 9, 9 + active / copies, 100),
               y = poisoned(device, "y", tokens * stride_of(cols));
  run_op(device, device->plan().texel_products && cols % 4 == 0 ? "activate texel" : "activate",
         [&](Recorder& recorder) {
           ops::activate(recorder, activation, gated, state, in.buffer, y, cols, tokens / copies, copies);
         });
  const reference::Rows want = reference::activate(static_cast<reference::Activation>(activation), gated, values);
  // exp() may be off by 3 + 2 |its argument| units in the last place, the rest by 5; results below fp32's normals may
  // be zero. gelu's erf() is good to 1.5e-7, absolutely; gelu_tanh's argument grows as the cube.
  reference::Rows allowed(active, cols);
  for (uint32_t t = 0; t < active; ++t)
    for (uint32_t i = 0; i < cols; ++i) {
      const double v = std::abs(values.row(t)[i]), up = gated ? std::abs(values.row(t)[cols + i]) : 1;
      const double factor = activation == Activation::clamped ? 8 : up;  // its sum with 1 is rounded absolutely
      const double argument = activation == Activation::gelu_tanh ? 2 * (v + 0.05 * std::min(v * v * v, 1e4)) : v;
      allowed.row(t)[i] = (8 + 8 * argument) * kRounding * std::abs(want.row(t)[i]) + 0x1p-120 * factor;
      if (activation == Activation::clamped) allowed.row(t)[i] += 8 * kRounding * std::min(v, 7.0);
      if (activation == Activation::tanh) allowed.row(t)[i] = 4 * kRounding * factor;  // 1 - 2 / ..., near 0
      if (activation == Activation::gelu) allowed.row(t)[i] += 2e-7 * std::min(v, 10.0) * factor;
      if (activation == Activation::gelu_tanh) allowed.row(t)[i] += 1e-9 * std::min(v, 10.0) * factor;
    }
  EXPECT_TRUE(close_to(download_as<float>(device, y), padded(want, tokens, stride_of(cols)),
                       padded(allowed, tokens, stride_of(cols))));
}

TEST_F(ActivateTest, AwkwardWidthsAndPartialChunks) {
  for (const Activation activation : kAll)
    for (const bool gated : {true, false})
      for (const uint32_t cols : {1u, 8u, 31u, 32u, 33u, 64u, 65u, 172u, 1536u})
        for (const uint32_t active : {1u, 3u, 8u}) {
          Random random(cols);
          reference::Rows values(active, gated ? 2 * cols : cols);
          for (double& value : values.values) value = random.normal() * 3;
          if (!gated && activation == Activation::clamped) continue;
          check_activate(activation, gated, values, 8);
          if (active == 8) check_activate(activation, gated, values, 16, 4);
          if (active == 1) check_activate(activation, gated, values, 1);
        }
}

TEST_F(ActivateTest, FarGates) {
  const std::vector<double> gates = {0, -0.0, 1e-30, 20, 90, 1000, 1e30, -20, -80, -88.5, -90, -104, -1000, -1e30};
  reference::Rows gate_up(1, static_cast<uint32_t>(2 * gates.size()));
  for (size_t i = 0; i < gates.size(); ++i) {
    gate_up.values[i] = static_cast<float>(gates[i]);
    gate_up.values[gates.size() + i] = 1.5;
  }
  for (const Activation activation : kAll)  // a square of 1e30 is infinite
    if (activation != Activation::relu_squared) check_activate(activation, true, gate_up, 1);
}

}  // namespace
}  // namespace weft::test
