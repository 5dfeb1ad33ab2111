// Bounds of rounding against the results of ggml's quantisers (tests/tools/rounding_goldens.py) and of our own.
#include "format/rounding_bound.h"

#include <algorithm>
#include <cmath>

#include "format/model_file.h"
#include "format_support.h"
#include "support/quantise.h"
#include "support/source_folder.h"

namespace weft {
namespace {

const std::filesystem::path kGoldens = source_folder() / "tests/unit/golden/format/rounding.gguf";

std::vector<float> bounds_of(const TensorView& tensor, const std::vector<float>& values) {
  std::vector<float> bounds(values.size());
  rounding_bounds(tensor, 0, values, bounds);
  return bounds;
}

// No number was further away than its bound, and most bounds are not much larger than the distance.
void check(const TensorView& tensor, const std::vector<float>& numbers) {
  const std::vector<float> values = floats_of(tensor), bounds = bounds_of(tensor, values);
  std::vector<float> used;  // of its bound, by an element
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float error = std::abs(values[i] - numbers[i]);
    ASSERT_LE(error, bounds[i]) << name(tensor.dtype) << ", element " << i << ": " << numbers[i] << " as " << values[i];
    if (error > 0) used.push_back(error / bounds[i]);
  }
  // Errors are anything up to half a step, so that half a bound is used. Q2_K has every third number at an end.
  std::ranges::sort(used);
  EXPECT_GT(used[used.size() / 2], tensor.dtype == DType::q2_k ? 0.15 : 0.3) << name(tensor.dtype);
  EXPECT_LT(used[used.size() / 2], 0.55) << name(tensor.dtype);
}

TEST(RoundingBound, HoldsForGgmlsQuantisers) {
  const ModelFile model = open_model(kGoldens);
  const std::vector<float> numbers = floats_of(*model.find("numbers"));
  for (const DType dtype : kDTypes)
    if (is_quantised(dtype) && has_rounding_bounds(dtype)) check(*model.find(name(dtype)), numbers);
}

TEST(RoundingBound, HoldsForOurs) {
  const ModelFile model = open_model(kGoldens);
  const TensorView& numbers = *model.find("numbers");
  const std::vector<float> values = floats_of(numbers);
  for (const DType dtype : {DType::f16, DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0}) {
    const std::vector<std::byte> bytes = test::quantise(values, dtype);
    check({"ours", dtype, numbers.shape, bytes}, values);
  }
}

// ggml's quantisers and the tests' agree, so that tests with the latter say something about files of the former.
TEST(RoundingBound, TheTestsQuantiseAsGgmlDoes) {
  const ModelFile model = open_model(kGoldens);
  const std::vector<float> values = floats_of(*model.find("numbers"));
  for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q5_0}) {
    const std::vector<std::byte> bytes = test::quantise(values, dtype);
    EXPECT_TRUE(std::ranges::equal(bytes, model.find(name(dtype))->bytes)) << name(dtype);
  }
}

TEST(RoundingBound, PartsAreAsTheWhole) {
  const ModelFile model = open_model(kGoldens);
  for (const DType dtype : kDTypes) {
    if (!is_quantised(dtype) || !has_rounding_bounds(dtype)) continue;
    const TensorView& tensor = *model.find(name(dtype));
    const std::vector<float> values = floats_of(tensor), whole = bounds_of(tensor, values);
    std::vector<float> part(256);
    rounding_bounds(tensor, 768, std::span(values).subspan(768, 256), part);
    EXPECT_TRUE(std::ranges::equal(part, std::span(whole).subspan(768, 256))) << name(dtype);
  }
}

// Tables of the other types are the same only if every number is.
TEST(RoundingBound, IsNothingForTypesWithoutARule) {
  for (const DType dtype : {DType::iq4_nl, DType::iq2_s, DType::tq1_0, DType::nvfp4}) {
    const Bytes block(std::string(block_bytes(dtype), '\x31'));
    const TensorView tensor = {"x", dtype, {1, block_elements(dtype)}, block};
    for (const float bound : bounds_of(tensor, floats_of(tensor))) EXPECT_EQ(bound, 0) << name(dtype);
  }
}

TEST(RoundingBound, IsNotFiniteWhereTheScaleIsNot) {
  for (const DType dtype : kDTypes) {
    if (!is_quantised(dtype) || !has_rounding_bounds(dtype)) continue;
    const Bytes block(std::string(block_bytes(dtype), '\xff'));  // NaN
    const TensorView tensor = {"nan", dtype, {1, block_elements(dtype)}, block};
    const std::vector<float> values = floats_of(tensor);
    for (const float bound : bounds_of(tensor, values)) EXPECT_FALSE(std::isfinite(bound)) << name(dtype);
  }
}

}  // namespace
}  // namespace weft
