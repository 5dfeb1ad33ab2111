// Compiled with -ffp-contract=off, as quants.cpp is: a block's first and last value must be those that it decodes.
#include "format/rounding_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include "format/quants.h"

namespace weft {
namespace {

constexpr float kHalfUlp = 0x1p-11f, kSubnormal = 0x1p-25f;  // of f16: relative, and absolute

// The bounds of values between the first and the last level of a scale.
class Levels {
 public:
  // count: levels. magnitudes: the largest of scale * q, plus the minimum's. clipped: steps that a number may have been
  // away from an end; beyond: what is added to that.
  Levels(float first, float last, float count, float magnitudes, float clipped, float beyond)
      : first_(first), last_(last) {
    const float step = std::abs(last - first) / (count - 1);
    const float rounded_scales = kHalfUlp * magnitudes + 2 * count * kSubnormal;
    inside_ = rounded_scales + 0.5f * step;
    at_end_ = rounded_scales + clipped * step + beyond;
  }
  float bound(float value) const { return value == first_ || value == last_ ? at_end_ : inside_; }

 private:
  float first_, last_, inside_, at_end_;
};

// Types whose blocks of 32 have one scale. Levels are first, first + 1, ..., last.
struct SmallBlock {
  float first, last;
  bool has_minimum;
  float clipped;
};

SmallBlock small_block(DType dtype) {
  switch (dtype) {
    case DType::q4_0:
      return {-8, 7, false, 1};
    case DType::q4_1:
      return {0, 15, true, 3};
    case DType::q5_0:
      return {-16, 15, false, 1};
    case DType::q5_1:
      return {0, 31, true, 0.5f};
    default:
      return {-128, 127, false, 0.5f};  // Q8_0
  }
}

float half_at(const std::byte* at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return half_to_float(half);
}

void small_block_bounds(DType dtype, const std::byte* block, std::span<const float> values, float* bounds) {
  const SmallBlock type = small_block(dtype);
  const float d = half_at(block), minimum = type.has_minimum ? half_at(block + 2) : 0;
  const float farthest = std::abs(d) * std::max(-type.first, type.last) + std::abs(minimum);
  const Levels levels(d * type.first + minimum, d * type.last + minimum, type.last - type.first + 1, farthest,
                      type.clipped, 0);
  for (size_t i = 0; i < values.size(); ++i) bounds[i] = levels.bound(values[i]);
}

// Types whose blocks of 256 consist of sub-blocks.
struct Superblock {
  size_t integers, integer_bytes;  // the place of all levels' bits; none set: the first level, all set: the last
  float levels;
  size_t d;
  std::optional<size_t> dmin;  // places of f16 scales
  float multiples;             // a sub-block's scale and minimum are at most so many of them
};

Superblock superblock(DType dtype) {
  switch (dtype) {
    case DType::q2_k:
      return {16, 64, 4, 80, 82, 15};
    case DType::q3_k:
      return {0, 96, 8, 108, {}, 32};
    case DType::q4_k:
      return {16, 128, 16, 0, 2, 63};
    case DType::q5_k:
      return {16, 160, 32, 0, 2, 63};
    default:
      return {0, 192, 64, 208, {}, 128};  // Q6_K
  }
}

// The block's values if all levels' bits were `bits`.
std::array<float, 256> decode_with(std::byte bits, DType dtype, const Superblock& type, const std::byte* block) {
  std::array<std::byte, 256> copy;
  std::memcpy(copy.data(), block, block_bytes(dtype));
  std::fill_n(copy.begin() + static_cast<ptrdiff_t>(type.integers), type.integer_bytes, bits);
  std::array<float, 256> values;
  block_decoder(dtype)(copy.data(), values.data());
  return values;
}

void superblock_bounds(DType dtype, const std::byte* block, std::span<const float> values, float* bounds) {
  constexpr float kClipped = 1.5f;  // one step, and a margin
  const Superblock type = superblock(dtype);
  const std::array<float, 256> first = decode_with(std::byte{0}, dtype, type, block),
                               last = decode_with(std::byte{0xff}, dtype, type, block);
  const float least = type.multiples * kSubnormal, d = std::abs(half_at(block + type.d)),
              dmin = type.dmin ? std::abs(half_at(block + *type.dmin)) : 0;
  const float beyond = type.levels * (d + least) + dmin + least;
  for (size_t i = 0; i < values.size(); ++i)
    bounds[i] = Levels(first[i], last[i], type.levels, std::abs(first[i]), kClipped, beyond).bound(values[i]);
}

void power_block_bounds(DType, const std::byte* block, std::span<const float> values, float* bounds) {
  const PowerBlock numbers = power_block(block);
  for (size_t i = 0; i < values.size(); ++i) {
    const int twice = std::abs(numbers.values[i]);
    const float bound = twice < 4 ? 0.5f : twice < 8 ? 1 : twice == 8 ? 2 : 4;  // in halves
    bounds[i] = std::ldexp(bound, numbers.exponent);
  }
}

// Relative precision of a type without blocks.
float precision(DType dtype) { return dtype == DType::f16 ? kHalfUlp : dtype == DType::bf16 ? 0x1p-8f : 0x1p-24f; }

}  // namespace

bool has_rounding_bounds(DType dtype) {
  return dtype == DType::q3_k ||
         !(has_list(dtype) || dtype == DType::nvfp4 || dtype == DType::q1_0 || dtype == DType::q2_0);
}

void rounding_bounds(const TensorView& tensor, uint64_t first, std::span<const float> values, std::span<float> bounds) {
  if (!is_quantised(tensor.dtype)) {
    const float relative = precision(tensor.dtype), least = tensor.dtype == DType::f16 ? kSubnormal : 0;
    for (size_t i = 0; i < values.size(); ++i) bounds[i] = std::abs(values[i]) * relative + least;
    return;
  }
  if (!has_rounding_bounds(tensor.dtype)) {
    std::ranges::fill(bounds, 0.0f);
    return;
  }
  const auto block_bounds = tensor.dtype == DType::mxfp4         ? power_block_bounds
                            : block_elements(tensor.dtype) == 32 ? small_block_bounds
                                                                 : superblock_bounds;
  const size_t elements = block_elements(tensor.dtype), bytes = block_bytes(tensor.dtype);
  const std::byte* block = tensor.bytes.data() + first / elements * bytes;
  for (size_t i = 0; i < values.size(); i += elements, block += bytes)
    block_bounds(tensor.dtype, block, values.subspan(i, elements), &bounds[i]);
}

}  // namespace weft
