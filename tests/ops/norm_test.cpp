#include "reference/norm.h"

#include "support/op_inputs.h"

namespace weft::test {
namespace {

class NormTest : public GpuTest {};

// Squares add up to cols terms; the root halves their relative error, and a few multiplications follow.
double tolerance(uint32_t cols) { return dot_error(cols) / 2 + 6 * kRounding; }

void check_norm(const Tuning& tuning, uint32_t cols, uint32_t active, uint32_t tokens, bool last_only, float scale,
                float epsilon) {
  SCOPED_TRACE(tuning.name() + " cols " + std::to_string(cols) + " active " + std::to_string(active) + " of " +
               std::to_string(tokens) + (last_only ? " last only" : "") + " scale " + std::to_string(scale));
  const auto device = open_device(tuning);
  Random random(cols + active);
  const Activations x = make_activations(device, tokens, active, cols, random, scale);
  const std::vector<float> weight = random.normals(cols);
  const Buffer weights = upload(device, "weight", weight), state = make_state(device, 5, 5 + active, 100);
  const uint32_t out_rows = last_only ? 1 : tokens;
  const Buffer y = poisoned(device, "y", uint64_t{out_rows} * x.stride);
  run_once(device, "norm", [&](Recorder& recorder) {
    ops::norm(recorder, state, x.buffer, weights, y, cols, epsilon, tokens, last_only);
  });
  reference::Rows want = reference::norm(x.values, doubles(weight), epsilon);
  if (last_only) {
    reference::Rows last(1, cols);
    std::ranges::copy(want.row(active - 1), last.row(0).begin());
    want = last;
  }
  EXPECT_TRUE(close_to(download_as<float>(device, y), padded(want, out_rows, x.stride), tolerance(cols)));
}

TEST_F(NormTest, AwkwardWidths) {
  for (const Tuning& tuning : reduction_tunings())
    for (const uint32_t cols : {1u, 2u, 31u, 33u, 172u, 255u, 257u, 576u, 4096u})
      check_norm(tuning, cols, 1, 1, false, 1, 1e-5f);
}

TEST_F(NormTest, PartialChunks) {
  for (const bool plain : {false, true})
    for (const uint32_t active : {1u, 2u, 7u, 16u})
      for (const bool last_only : {false, true}) {
        Tuning tuning;
        tuning.plain = plain;
        check_norm(tuning, 172, active, 16, last_only, 1, 1e-5f);
      }
}

TEST_F(NormTest, EpsilonAndMagnitudes) {
  check_norm({}, 64, 1, 1, false, 0, 1e-5f);  // all zero: epsilon keeps it finite
  check_norm({}, 64, 1, 1, false, 1e-4f, 1e-5f);
  check_norm({}, 64, 1, 1, false, 1e4f, 1e-6f);
}

}  // namespace
}  // namespace weft::test
