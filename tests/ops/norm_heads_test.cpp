#include "reference/norm.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class NormHeadsTest : public GpuTest {};

void check_norm_heads(const Tuning& tuning, const ops::HeadShape& s, uint32_t active, uint32_t tokens,
                      bool values = false) {
  SCOPED_TRACE(tuning.name() + " heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + " dim " +
               std::to_string(s.head_dim) + " active " + std::to_string(active) + " of " + std::to_string(tokens));
  const auto device = open_device(tuning);
  Random random(s.head_dim + active);
  const uint32_t cols = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const Activations qkv = make_activations(device, tokens, active, cols, random);
  const std::vector<double> weight = doubles(random.normals((s.kv_heads == 0 ? 1 : values ? 3 : 2) * s.head_dim));
  const Buffer weights = upload(device, "weight", std::vector<float>(weight.begin(), weight.end()));
  const Buffer state = make_state(device, 5, 5 + active, 100);
  run_op(device, reduction("norm_heads", device->plan()),
         [&](Recorder& recorder) { ops::norm_heads(recorder, s, state, weights, qkv.buffer, 1e-6f, tokens, values); });
  reference::Rows want = qkv.values;
  for (uint32_t t = 0; t < active; ++t)
    for (uint32_t head = 0; head < s.heads + (values ? 2 : 1) * s.kv_heads; ++head) {
      reference::Rows one(1, s.head_dim);
      const auto place = want.row(t).subspan(head * s.head_dim, s.head_dim);
      std::ranges::copy(place, one.values.begin());
      const auto own = std::span(weight).subspan((head < s.heads                ? 0
                                                  : head < s.heads + s.kv_heads ? 1
                                                                                : 2) *
                                                     s.head_dim,
                                                 s.head_dim);
      std::ranges::copy(reference::norm(one, own, 1e-6f).values, place.begin());
    }
  std::vector<float> got = download_as<float>(device, qkv.buffer);
  got.resize(size_t{active} * qkv.stride);  // tokens after are NaN as they were, or anything
  std::vector<double> expected = padded(want, active, qkv.stride);
  for (double& value : expected)
    if (std::isnan(value)) value = 0;  // the padding
  EXPECT_TRUE(close_to(got, expected, dot_error(s.head_dim) / 2 + 6 * kRounding));
}

TEST_F(NormHeadsTest, HeadDimensionsAndChunks) {
  for (const Tuning& tuning : reduction_tunings())
    for (const uint32_t dim : {2u, 12u, 64u, 80u, 128u, 256u, 512u}) {
      check_norm_heads(tuning, {3, 1, dim}, 1, 1);
      check_norm_heads(tuning, {6, 2, dim}, 5, 8);
      check_norm_heads(tuning, {6, 2, dim}, 5, 8, true);
      check_norm_heads(tuning, {5, 0, dim}, 5, 8);
    }
}

TEST_F(NormHeadsTest, RowsOfAllHeads) {
  const ops::HeadShape s = {5, 2, 12};
  const uint32_t q = s.heads * s.head_dim, k = s.kv_heads * s.head_dim, tokens = 3;
  for (const Tuning& tuning : reduction_tunings()) {
    const auto device = open_device(tuning);
    Random random(7);
    const Activations qkv = make_activations(device, tokens, tokens, q + 2 * k, random);
    const std::vector<float> weight = random.normals(q + k);
    const Buffer weights = upload(device, "weight", weight), state = make_state(device, 5, 5 + tokens, 100);
    run_op(device, reduction("norm_heads", device->plan()),
           [&](Recorder& recorder) { ops::norm_rows(recorder, s, state, weights, qkv.buffer, 1e-6f, tokens); });
    reference::Rows want = qkv.values;
    for (uint32_t t = 0; t < tokens; ++t)
      for (const auto& [from, count] : {std::pair{0u, q}, {q, k}}) {
        const std::span<double> place = want.row(t).subspan(from, count);
        reference::Rows one(1, count);
        std::ranges::copy(place, one.values.begin());
        const std::vector<double> own = doubles({weight.begin() + from, weight.begin() + from + count});
        std::ranges::copy(reference::norm(one, own, 1e-6f).values, place.begin());
      }
    const std::vector<float> got = download_as<float>(device, qkv.buffer);
    for (uint32_t t = 0; t < tokens; ++t)
      for (uint32_t i = 0; i < want.cols; ++i)
        ASSERT_NEAR(got[t * qkv.stride + i], want.row(t)[i], (dot_error(q) + 6 * kRounding) * 10) << t << " " << i;
  }
}

}  // namespace
}  // namespace weft::test
