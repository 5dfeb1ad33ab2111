// A tensor as it lies in a file, and how its elements become floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/half.h"

namespace weft {

// From q8_0 on: GGUF's block formats (format/quants.h). Q8_0 is what the device's q8 is: an f16 scale, then 32 int8.
// dequantised: rows that are computed as floats from a tool's few bits; q8 is fine enough for them. From u8 on: parts
// of quantised matrices in folders, whose readers make another type of them.
enum class DType {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  mxfp4,
  iq4_nl,
  iq4_xs,
  iq3_xxs,
  iq3_s,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq1_s,
  iq1_m,
  tq1_0,
  tq2_0,
  nvfp4,
  q1_0,
  q2_0,
  dequantised,
  u8,
  i8,
  i32,
  i64,
  f8_e4m3
};
// Types that a matrix may have.
inline constexpr DType kDTypes[] = {
    DType::f32,    DType::f16,    DType::bf16,    DType::q8_0,  DType::q4_0,    DType::q4_1,   DType::q5_0,
    DType::q5_1,   DType::q2_k,   DType::q3_k,    DType::q4_k,  DType::q5_k,    DType::q6_k,   DType::mxfp4,
    DType::iq4_nl, DType::iq4_xs, DType::iq3_xxs, DType::iq3_s, DType::iq2_xxs, DType::iq2_xs, DType::iq2_s,
    DType::iq1_s,  DType::iq1_m,  DType::tq1_0,   DType::tq2_0, DType::nvfp4,   DType::q1_0,   DType::q2_0};

inline constexpr uint64_t kQ8BlockElements = 32;
inline constexpr uint64_t kQ8BlockBytes = 34;

const char* name(DType dtype);         // as ggml has it: "F32", "Q8_0", "Q4_K"; static
uint64_t block_elements(DType dtype);  // along a row; 1 for F32, F16 and BF16
uint64_t block_bytes(DType dtype);
inline bool is_quantised(DType dtype) { return block_elements(dtype) > 1; }
inline bool is_raw(DType dtype) { return dtype >= DType::u8; }

class QuantisedRows;

// bytes: exactly bytes_for(dtype, shape), at any alignment; they belong to the ModelFile (or to whom gave them to the
// parser). A matrix that a tool has quantised has no bytes but `rows`, which are computed; dtype is the type that holds
// them best.
struct TensorView {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;  // outermost first: (rows, cols); empty for a scalar
  std::span<const std::byte> bytes;
  uint64_t first_row = 0;  // the number of its first row in the file's tensor: a device or a list has a part
  std::shared_ptr<const QuantisedRows> rows = nullptr;  // of the file's whole tensor
};

// The type for reports: name(), or the method of a quantised matrix. Static.
const char* type_name(const TensorView& tensor);
// The bytes of the numbers in the file.
std::span<const std::byte> stored_bytes(const TensorView& tensor);
// Some rows of a matrix.
TensorView rows_of(const TensorView& matrix, uint64_t first, uint64_t count);

std::string text_of(std::span<const uint64_t> shape);  // "(2, 3)"

// The product of a shape. Throws Error(bad_file) if it overflows 64 bits.
uint64_t element_count(std::span<const uint64_t> shape);

// Bytes of a tensor. Throws Error(bad_file) if the number overflows 64 bits, or if rows are no multiple of the type's
// block. It and element_count do not know the tensor's name: the error's place is empty.
uint64_t bytes_for(DType dtype, std::span<const uint64_t> shape);

// Decodes elements [first, first + out.size()) in row-major order. first must be a multiple of the type's block (the
// end need not be). Throws Error(invalid_argument) for a range outside the tensor. Any number of threads may decode one
// tensor.
void to_float(const TensorView& tensor, uint64_t first, std::span<float> out);

}  // namespace weft
