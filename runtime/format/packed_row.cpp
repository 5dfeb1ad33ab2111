#include "format/packed_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/number.h"
#include "base/quote.h"
#include "format/q4_block.h"
#include "format/quantised_rows.h"
#include "format/quants.h"

namespace weft {
namespace {

constexpr uint64_t kBlock = kQ8BlockElements;

[[noreturn]] void refuse(const TensorView& tensor, uint64_t row, uint64_t column, float value) {
  throw Error(Code::unsupported,
              "element (" + std::to_string(tensor.first_row + row) + ", " + std::to_string(column) + ") is " +
                  number_text(value) + ", f16 holds finite values up to 65504",
              "tensor " + printable(tensor.name));
}

[[noreturn]] void refuse_large(const TensorView& tensor, uint64_t row, uint64_t column, int exponent) {
  throw Error(Code::unsupported,
              "the block of element (" + std::to_string(tensor.first_row + row) + ", " + std::to_string(column) +
                  ") has the scale 2^" + std::to_string(exponent) + ", q8 holds MXFP4's up to 2^19",
              "tensor " + printable(tensor.name));
}

bool is_finite(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

// Integers of a few bits fill int8's upper ones, so that the first planes of a table tell the most (ops/planes.h). The
// scale is divided by as much, unless it would become subnormal.
void widen(ScaledBlock& block, uint32_t spare_bits) {
  const uint32_t exponent = block.scale >> 10 & 31;
  const uint32_t shift = exponent > 0 ? std::min(spare_bits, exponent - 1) : 0;
  block.scale = static_cast<uint16_t>(block.scale - (shift << 10));
  for (int8_t& value : block.values) value = static_cast<int8_t>(value * (1 << shift));
}

}  // namespace

TensorView computed_row(const TensorView& tensor, uint64_t row, DType type, std::vector<std::byte>& bytes,
                        Rounding& rounding) {
  const QuantisedRows& rows = *tensor.rows;
  const uint64_t columns = tensor.shape.back();
  TensorView one = {tensor.name, rows.has_blocks(type) ? type : DType::f32, {1, columns}, {}, tensor.first_row + row};
  bytes.resize(bytes_for(one.dtype, one.shape));
  one.bytes = bytes;
  if (one.dtype == DType::f32) {
    std::vector<float> values(columns);
    rows.values(one.first_row, values);
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return one;
  }
  rows.blocks(one.first_row, type, bytes.data());
  if (!rows.blocks_are_rounded(type)) return one;
  std::vector<float> values(columns), kept(columns);
  rows.values(one.first_row, values);
  to_float(one, 0, kept);
  for (uint64_t i = 0; i < columns; ++i) {
    rounding.largest_error = std::max<double>(rounding.largest_error, std::abs(kept[i] - values[i]));
    rounding.largest_value = std::max<double>(rounding.largest_value, std::abs(values[i]));
  }
  return one;
}

RowPacker::RowPacker(DType to, uint64_t columns)
    : to_(to), columns_(columns), values_((columns + kBlock - 1) / kBlock * kBlock) {
  const bool blocks = to != DType::f16;
  packed_.halves.resize(blocks ? values_.size() / kBlock : values_.size());
  packed_.minima.resize(to == DType::q4_1 ? values_.size() / kBlock : 0);
  packed_.bytes.resize(blocks ? values_.size() : 0);
}

const PackedRow& RowPacker::pack(const TensorView& tensor, uint64_t row, Rounding& rounding) {
  if (tensor.rows) {
    const DType type = to_ == DType::q8_0 ? tensor.dtype : to_;
    return pack(computed_row(tensor, row, type, computed_, rounding), 0, rounding);
  }
  if (to_ == DType::q8_0 && is_scaled_integers(tensor.dtype)) {
    copy_q8(tensor, row);
    return packed_;
  }
  if (to_ == DType::f16 && tensor.dtype == DType::f16) {
    copy_f16(tensor, row);
    return packed_;
  }
  to_float(tensor, row * columns_, std::span(values_).first(columns_));
  if (to_ == DType::q8_0 && tensor.dtype == DType::mxfp4)
    pack_powers(tensor, row, rounding);
  else if (to_ == DType::q8_0)
    pack_q8(tensor, row, rounding);
  else if (to_ == DType::q4_1)
    pack_q4(tensor, row, rounding);
  else
    pack_f16(tensor, row, rounding);
  return packed_;
}

void RowPacker::copy_f16(const TensorView& tensor, uint64_t row) {
  std::memcpy(packed_.halves.data(), &tensor.bytes[row * columns_ * 2], columns_ * 2);
  for (uint64_t i = 0; i < columns_; ++i)
    if (!is_finite(packed_.halves[i])) refuse(tensor, row, i, half_to_float(packed_.halves[i]));
}

void RowPacker::pack_f16(const TensorView& tensor, uint64_t row, Rounding& rounding) {
  float error = 0, most = 0;
  for (uint64_t i = 0; i < columns_; ++i) {
    const uint16_t half = packed_.halves[i] = float_to_half(values_[i]);
    if (!is_finite(half)) refuse(tensor, row, i, values_[i]);
    error = std::max(error, std::abs(half_to_float(half) - values_[i]));
    most = std::max(most, std::abs(values_[i]));
  }
  rounding.largest_error = std::max<double>(rounding.largest_error, error);
  rounding.largest_value = std::max<double>(rounding.largest_value, most);
}

void RowPacker::pack_q8(const TensorView& tensor, uint64_t row, Rounding& rounding) {
  float error = 0, most = 0;
  for (uint64_t block = 0; block < packed_.halves.size(); ++block) {
    const float* from = &values_[block * kBlock];
    int8_t* to = &packed_.bytes[block * kBlock];
    float largest = 0;
    for (uint64_t i = 0; i < kBlock; ++i) {
      if (!std::isfinite(from[i])) refuse(tensor, row, block * kBlock + i, from[i]);
      largest = std::max(largest, std::abs(from[i]));
    }
    const uint16_t scale = packed_.halves[block] = float_to_half(largest / 127);
    if (!is_finite(scale)) refuse(tensor, row, block * kBlock, largest);
    const float unit = half_to_float(scale);
    for (uint64_t i = 0; i < kBlock; ++i) {  // a tiny block's scale may have rounded down or to nothing
      to[i] = unit > 0 ? static_cast<int8_t>(std::clamp(std::nearbyint(from[i] / unit), -127.0f, 127.0f)) : int8_t{0};
      error = std::max(error, std::abs(unit * static_cast<float>(to[i]) - from[i]));
    }
    most = std::max(most, largest);
  }
  rounding.largest_error = std::max<double>(rounding.largest_error, error);
  rounding.largest_value = std::max<double>(rounding.largest_value, most);
}

void RowPacker::pack_q4(const TensorView& tensor, uint64_t row, Rounding& rounding) {
  const uint64_t blocks = packed_.halves.size();
  float error = 0, most = 0;
  for (uint64_t block = 0; block < blocks; ++block) {
    const auto from = std::span(values_).subspan(block * kBlock, std::min(kBlock, columns_ - block * kBlock));
    float largest = 0;
    for (uint64_t i = 0; i < from.size(); ++i) {
      if (!is_finite(float_to_half(from[i]))) refuse(tensor, row, block * kBlock + i, from[i]);
      largest = std::max(largest, std::abs(from[i]));
    }
    Q4Block fitted;
    if (is_nibbles(tensor.dtype)) {
      const NibbleBlock own = nibble_block(tensor.dtype, tensor.bytes.data(), row * blocks + block);
      fitted = {float_to_half(own.scale), float_to_half(own.minimum), own.values};
      if (!is_finite(fitted.minimum)) refuse(tensor, row, block * kBlock, own.minimum);
      if (!is_finite(fitted.scale)) refuse(tensor, row, block * kBlock, own.scale);
    } else {
      fitted = fit_q4(from);
    }
    packed_.halves[block] = fitted.scale;
    packed_.minima[block] = fitted.minimum;
    std::copy(fitted.quants.begin(), fitted.quants.end(),
              packed_.bytes.begin() + static_cast<ptrdiff_t>(block * kBlock));
    const float scale = half_to_float(fitted.scale), minimum = half_to_float(fitted.minimum);
    for (uint64_t i = 0; i < from.size(); ++i)
      error = std::max(error, std::abs(scale * static_cast<float>(fitted.quants[i]) + minimum - from[i]));
    most = std::max(most, largest);
  }
  rounding.largest_error = std::max<double>(rounding.largest_error, error);
  rounding.largest_value = std::max<double>(rounding.largest_value, most);
}

// The integers fill int8's upper bits, as widen has them. The scales are powers of two that f16 has: 2^-24 to 2^15.
void RowPacker::pack_powers(const TensorView& tensor, uint64_t row, Rounding& rounding) {
  constexpr int kLeast = -24, kMost = 15, kSpareBits = 3, kLeastNormal = -14;
  const uint64_t bytes = block_bytes(tensor.dtype);
  const std::byte* from = tensor.bytes.data() + row * packed_.halves.size() * bytes;
  float error = 0, most = 0;
  for (uint64_t i = 0; i < packed_.halves.size(); ++i, from += bytes) {
    PowerBlock block = power_block(from);
    const bool zero = std::ranges::all_of(block.values, [](int8_t value) { return value == 0; });
    if (zero) block.exponent = 0;
    const int scale = std::clamp(block.exponent - kSpareBits, kLeast, kMost), shift = block.exponent - scale;
    if (shift > kSpareBits) refuse_large(tensor, row, i * kBlock, block.exponent + 1);
    packed_.halves[i] =
        static_cast<uint16_t>(scale < kLeastNormal ? 1 << (scale - kLeast) : (scale - kLeastNormal + 1) << 10);
    for (uint64_t k = 0; k < kBlock; ++k) {
      const float whole = std::nearbyint(std::ldexp(static_cast<float>(block.values[k]), shift));
      packed_.bytes[i * kBlock + k] = static_cast<int8_t>(whole);
      if (shift >= 0) continue;
      const float value = values_[i * kBlock + k];
      error = std::max(error, std::abs(std::ldexp(whole, scale) - value));
      most = std::max(most, std::abs(value));
    }
  }
  rounding.largest_error = std::max<double>(rounding.largest_error, error);
  rounding.largest_value = std::max<double>(rounding.largest_value, most);
}

void RowPacker::copy_q8(const TensorView& tensor, uint64_t row) {
  const uint64_t bytes = block_bytes(tensor.dtype);
  const uint32_t spare_bits = tensor.dtype == DType::q4_0 ? 4 : tensor.dtype == DType::q5_0 ? 3 : 0;
  const std::byte* from = tensor.bytes.data() + row * packed_.halves.size() * bytes;
  for (uint64_t i = 0; i < packed_.halves.size(); ++i, from += bytes) {
    ScaledBlock block = scaled_block(tensor.dtype, from);
    if (!is_finite(block.scale)) refuse(tensor, row, i * kBlock, half_to_float(block.scale));
    widen(block, spare_bits);
    packed_.halves[i] = block.scale;
    std::copy(block.values.begin(), block.values.end(), packed_.bytes.begin() + static_cast<ptrdiff_t>(i * kBlock));
  }
}

}  // namespace weft
