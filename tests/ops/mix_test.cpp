#include <cmath>

#include "support/closeness.h"
#include "support/op_inputs.h"

namespace weft::test {
namespace {

class MixTest : public GpuTest {};

using ops::FirstPrior;

struct Case {
  uint32_t rows;
  std::vector<uint32_t> bounds;  // (softmaxes, 2)
  FirstPrior first;
  float scale = 3;
};

void check_mix(const Case& c) {
  SCOPED_TRACE("rows " + std::to_string(c.rows) + " softmaxes " + std::to_string(c.bounds.size() / 2) + " scale " +
               std::to_string(c.scale));
  const auto device = open_device();
  const uint32_t softmaxes = static_cast<uint32_t>(c.bounds.size() / 2), stride = stride_of(c.rows);
  Random random(c.rows + softmaxes);
  const std::vector<float> logits = random.normals(size_t{softmaxes} * stride, c.scale);
  const std::vector<float> sums = random.normals(softmaxes, c.scale);
  const std::vector<float> priors = random.normals(c.first == FirstPrior::sum ? softmaxes - 1 : softmaxes, c.scale);
  std::vector<double> shares(softmaxes), want(stride, kUntouched), allowed(stride, 0);
  double whole = 0;
  for (uint32_t k = 0; k < softmaxes; ++k) {
    const float prior = c.first == FirstPrior::given ? priors[k] : k == 0 ? sums[0] : priors[k - 1];
    whole += shares[k] = std::exp(double{prior});
  }
  for (uint32_t row = 0; row < c.rows; ++row) {
    double probability = 0;
    for (uint32_t k = 0; k < softmaxes; ++k)
      if (row >= c.bounds[2 * k] && row < c.bounds[2 * k + 1])
        probability += shares[k] / whole * std::exp(double{logits[size_t{k} * stride + row]} - sums[k]);
    want[row] = std::log(probability);
    allowed[row] = 16 * kRounding * (1 + 8 * c.scale);  // of differences of numbers up to about 4 deviations
  }
  const Buffer in = upload(device, "logits", logits), limits = upload(device, "bounds", c.bounds);
  const Buffer sum = upload(device, "sums", sums), prior = upload(device, "priors", priors);
  const Buffer mixed = poisoned(device, "mixed", stride);
  run_op(device, "mix", [&](Recorder& recorder) {
    ops::mix(recorder, {in, limits, sum, prior, mixed}, c.rows, softmaxes, c.first);
  });
  EXPECT_TRUE(close_to(download_as<float>(device, mixed), want, allowed));
}

TEST_F(MixTest, Mixtures) {
  for (const uint32_t rows : {1u, 63u, 65u, 300u, 5000u})
    for (const uint32_t softmaxes : {2u, 3u, 16u}) {
      std::vector<uint32_t> bounds;
      for (uint32_t k = 0; k < softmaxes; ++k) bounds.insert(bounds.end(), {0, rows});
      check_mix({rows, bounds, FirstPrior::given});
      check_mix({rows, bounds, FirstPrior::given, 20});
    }
}

TEST_F(MixTest, OneSoftmaxARow) {
  for (const uint32_t rows : {3u, 65u, 300u, 5000u}) {
    check_mix({rows, {0, 1, 1, rows}, FirstPrior::sum});
    check_mix({rows, {0, rows / 2, rows / 2, rows - 1, rows - 1, rows}, FirstPrior::sum});
    check_mix({rows, {0, rows / 2, rows / 2, rows - 1, rows - 1, rows}, FirstPrior::sum, 20});
  }
}

TEST_F(MixTest, RefusesWrongShapes) {
  const auto device = open_device();
  const Buffer small(device, "small", 4, Memory::device), large(device, "large", 8192, Memory::device);
  const auto run = [&](const View& logits, const View& priors, const View& mixed, FirstPrior first) {
    run_op(device, "mix", [&](Recorder& r) { ops::mix(r, {logits, large, large, priors, mixed}, 300, 2, first); });
  };
  EXPECT_THROW(run(small, large, large, FirstPrior::given), Error);
  EXPECT_THROW(run(large, small, large, FirstPrior::given), Error);
  EXPECT_THROW(run(large, large, small, FirstPrior::given), Error);
  EXPECT_NO_THROW(run(large, small, large, FirstPrior::sum));
}

}  // namespace
}  // namespace weft::test
