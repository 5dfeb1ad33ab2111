// A tensor as it lies in a file, and how its elements become floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/half.h"

namespace weft {

// q8_0: GGUF blocks of 32 elements along a row: an f16 scale, then 32 int8; 34 bytes. element = scale * int8.
enum class DType { f32, f16, bf16, q8_0 };

inline constexpr uint64_t kQ8BlockElements = 32;
inline constexpr uint64_t kQ8BlockBytes = 34;

const char* name(DType dtype);  // "F32", "F16", "BF16", "Q8_0"; static

// bytes: exactly bytes_for(dtype, shape), at any alignment; they belong to the ModelFile (or to whom gave them to the
// parser).
struct TensorView {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;  // outermost first: (rows, cols); empty for a scalar
  std::span<const std::byte> bytes;
};

// The product of a shape. Throws Error(bad_file) if it overflows 64 bits.
uint64_t element_count(std::span<const uint64_t> shape);

// Bytes of a tensor. Throws Error(bad_file) if the number overflows 64 bits, or if rows of q8_0 are no multiple of 32
// elements. Neither this nor element_count knows the tensor's name: the error's place is empty.
uint64_t bytes_for(DType dtype, std::span<const uint64_t> shape);

// Decodes elements [first, first + out.size()) in row-major order. For q8_0, first must be a multiple of 32 (the end
// need not be). Throws Error(invalid_argument) for a range outside the tensor. Any number of threads may decode one
// tensor.
void to_float(const TensorView& tensor, uint64_t first, std::span<float> out);

}  // namespace weft
