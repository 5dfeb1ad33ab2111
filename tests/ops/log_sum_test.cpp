#include <cmath>

#include "support/closeness.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class LogSumTest : public GpuTest {};

double log_sum(std::span<const float> logits) {
  const double peak = *std::ranges::max_element(logits);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - peak);
  return peak + std::log(sum);
}

// Logits outside of the bounds are NaN, and must not be read.
void check_log_sum(const Tuning& tuning, uint32_t rows, const std::vector<uint32_t>& bounds, float scale,
                   float offset) {
  SCOPED_TRACE(tuning.name() + " rows " + std::to_string(rows) + " scale " + std::to_string(scale));
  const auto device = open_device(tuning);
  const uint32_t softmaxes = static_cast<uint32_t>(bounds.size() / 2), stride = stride_of(rows);
  Random random(rows);
  std::vector<float> logits(size_t{softmaxes} * stride, std::numeric_limits<float>::quiet_NaN());
  std::vector<double> want, allowed;
  for (uint32_t k = 0; k < softmaxes; ++k) {
    const std::span<float> own(&logits[size_t{k} * stride + bounds[2 * k]], bounds[2 * k + 1] - bounds[2 * k]);
    for (float& logit : own) logit = offset + scale * random.normal();
    want.push_back(log_sum(own));
    allowed.push_back(dot_error(rows) + 1e-5 + 4 * kRounding * (8 * scale + std::abs(offset)));
  }
  const Buffer in = upload(device, "logits", logits), limits = upload(device, "bounds", bounds);
  const Buffer sums = upload(device, "sums", std::vector<float>(ops::log_sum_bytes(rows, softmaxes) / 4));
  for (int token = 0; token < 2; ++token) {  // the scratch is as the next token needs it
    run_op(device, reduction("log_sum", device->plan()),
           [&](Recorder& recorder) { ops::log_sum(recorder, in, limits, sums, rows, 0, softmaxes); });
    std::vector<float> got = download_as<float>(device, sums);
    got.resize(softmaxes);
    EXPECT_TRUE(close_to(got, want, allowed)) << token;
    run_once(device, "poison", [&](Recorder& r) { r.fill(View(sums).part(0, softmaxes * 4), kPoison); });
  }
}

TEST_F(LogSumTest, BoundsAndScales) {
  for (const Tuning& tuning : reduction_tunings())
    for (const uint32_t rows : {1u, 3u, 65u, 300u, 2048u, 5000u})
      for (const float offset : {0.0f, 200.0f, -200.0f}) {
        check_log_sum(tuning, rows, {0, rows}, 3, offset);
        check_log_sum(tuning, rows, {0, rows, 0, rows, 0, rows}, 30, offset);
        if (rows > 2) check_log_sum(tuning, rows, {0, 1, 1, rows - 1, rows - 1, rows}, 3, offset);
      }
}

TEST_F(LogSumTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer small(device, "small", 256, Memory::device), large(device, "large", 4096, Memory::device);
  const auto run = [&](const Buffer& logits, uint32_t softmaxes) {
    run_op(device, "log_sum", [&](Recorder& r) { ops::log_sum(r, logits, small, small, 300, 0, softmaxes); });
  };
  EXPECT_THROW(run(small, 1), Error);
  EXPECT_THROW(run(large, 16), Error);
}

}  // namespace
}  // namespace weft::test
