#include "ops/linear_attention.h"

#include "reference/linear_attention.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class GateTest : public GpuTest {};

TEST_F(GateTest, EqualsTheReference) {
  constexpr uint32_t kTokens = 5, kActive = 3, kAt = 7;
  for (const Tuning& tuning : reduction_tunings()) {
    const auto device = open_device(tuning);
    for (const auto kind : {ops::GateKind::sigmoid, ops::GateKind::after_norm, ops::GateKind::then_norm,
                            ops::GateKind::of_gelu, ops::GateKind::of_group})
      for (const auto& [groups, cols] : {std::pair{3u, 24u}, {1u, 300u}, {4u, 65u}}) {
        for (const bool own : {false, true}) {
          SCOPED_TRACE(std::to_string(static_cast<uint32_t>(kind)) + " " + std::to_string(groups) + " x " +
                       std::to_string(cols) + (own ? " own weights" : ""));
          Random random(cols);
          const Activations x = make_activations(device, kTokens, kActive, groups * cols, random);
          const Activations gates = make_activations(device, kTokens, kActive, groups * cols + kAt + 3, random, 3);
          const std::vector<float> weight = random.normals(own ? groups * cols : cols);
          const Buffer weights = upload(device, "weight", weight), state = make_state(device, 20, 20 + kActive, 400);
          reference::Rows own_gates(kActive, groups * cols);
          std::vector<double> own_weights;
          for (uint32_t i = 0; i < groups * cols; ++i) own_weights.push_back(weight[own ? i : i % cols]);
          for (uint32_t t = 0; t < kActive; ++t)
            for (uint32_t i = 0; i < groups * cols; ++i)
              own_gates.row(t)[i] = gates.values.row(t)[kAt + (kind == ops::GateKind::of_group ? i / cols : i)];
          const reference::Rows want =
              reference::gate(static_cast<reference::Gate>(kind), groups, x.values, own_gates, own_weights, 1e-5);
          run_op(device, reduction("gate", device->plan()), [&](Recorder& r) {
            ops::gate(r, {kind, groups, cols, groups * cols + kAt + 3, kAt, own, 1e-5f}, state, gates.buffer, weights,
                      x.buffer, kTokens);
          });
          std::vector<float> got = download_as<float>(device, x.buffer);
          got.resize(size_t{kActive} * x.stride);
          std::vector<double> expected = padded(want, kActive, x.stride);
          for (double& value : expected)
            if (std::isnan(value)) value = 0;  // the padding
          EXPECT_TRUE(close_to(got, expected, std::vector<double>(got.size(), 2e-5)));
        }
      }
  }
}

}  // namespace
}  // namespace weft::test
