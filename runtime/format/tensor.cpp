#include "format/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/quote.h"
#include "format/quantised_rows.h"
#include "format/quants.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "both file formats are read as little-endian memory");

struct TypeInfo {
  const char* name;
  uint64_t elements, bytes;  // of a block
};

constexpr TypeInfo info_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {"F32", 1, 4};
    case DType::f16:
      return {"F16", 1, 2};
    case DType::bf16:
      return {"BF16", 1, 2};
    case DType::q8_0:
      return {"Q8_0", kQ8BlockElements, kQ8BlockBytes};
    case DType::q4_0:
      return {"Q4_0", 32, 18};
    case DType::q4_1:
      return {"Q4_1", 32, 20};
    case DType::q5_0:
      return {"Q5_0", 32, 22};
    case DType::q5_1:
      return {"Q5_1", 32, 24};
    case DType::q2_k:
      return {"Q2_K", 256, 84};
    case DType::q3_k:
      return {"Q3_K", 256, 110};
    case DType::q4_k:
      return {"Q4_K", 256, 144};
    case DType::q5_k:
      return {"Q5_K", 256, 176};
    case DType::q6_k:
      return {"Q6_K", 256, 210};
    case DType::mxfp4:
      return {"MXFP4", 32, 17};
    case DType::iq4_nl:
      return {"IQ4_NL", 32, 18};
    case DType::iq4_xs:
      return {"IQ4_XS", 256, 136};
    case DType::iq3_xxs:
      return {"IQ3_XXS", 256, 98};
    case DType::iq3_s:
      return {"IQ3_S", 256, 110};
    case DType::iq2_xxs:
      return {"IQ2_XXS", 256, 66};
    case DType::iq2_xs:
      return {"IQ2_XS", 256, 74};
    case DType::iq2_s:
      return {"IQ2_S", 256, 82};
    case DType::iq1_s:
      return {"IQ1_S", 256, 50};
    case DType::iq1_m:
      return {"IQ1_M", 256, 56};
    case DType::tq1_0:
      return {"TQ1_0", 256, 54};
    case DType::tq2_0:
      return {"TQ2_0", 256, 66};
    case DType::nvfp4:
      return {"NVFP4", 64, 36};
    case DType::q1_0:
      return {"Q1_0", 128, 18};
    case DType::q2_0:
      return {"Q2_0", 64, 18};
    case DType::dequantised:
      return {"F32", 1, 4};
    case DType::u8:
      return {"U8", 1, 1};
    case DType::i8:
      return {"I8", 1, 1};
    case DType::i32:
      return {"I32", 1, 4};
    case DType::i64:
      return {"I64", 1, 8};
    case DType::f8_e4m3:
      return {"F8_E4M3", 1, 1};
  }
  return {"?", 1, 1};
}

uint64_t multiply(uint64_t a, uint64_t b, const char* what) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw Error(Code::bad_file, "the number of " + std::string(what) + ", " + std::to_string(a) + " times " +
                                    std::to_string(b) + ", does not fit 64 bits");
  }
  return product;
}

uint16_t load16(const std::byte* at) {
  uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// The last block may be asked for in part.
void decode_blocks(DType dtype, const std::byte* block, std::span<float> out) {
  const BlockDecoder decode = block_decoder(dtype);
  const size_t elements = block_elements(dtype), bytes = block_bytes(dtype);
  for (; out.size() >= elements; block += bytes, out = out.subspan(elements)) decode(block, out.data());
  if (out.empty()) return;
  std::array<float, 256> whole;
  decode(block, whole.data());
  std::copy_n(whole.begin(), out.size(), out.begin());
}

// Computes whole rows straight into `out`, and parts of rows by way of a copy.
void compute_rows(const TensorView& tensor, uint64_t first, std::span<float> out) {
  const uint64_t columns = tensor.shape.back();
  std::vector<float> copy;
  while (!out.empty()) {
    const uint64_t row = tensor.first_row + first / columns, from = first % columns;
    const size_t count = std::min<uint64_t>(columns - from, out.size());
    if (count == columns) {
      tensor.rows->values(row, out.first(count));
    } else {
      copy.resize(columns);
      tensor.rows->values(row, copy);
      std::copy_n(copy.begin() + static_cast<ptrdiff_t>(from), count, out.begin());
    }
    first += count;
    out = out.subspan(count);
  }
}

}  // namespace

const char* type_name(const TensorView& tensor) { return tensor.rows ? tensor.rows->method() : name(tensor.dtype); }

std::span<const std::byte> stored_bytes(const TensorView& tensor) {
  return tensor.rows ? tensor.rows->stored() : tensor.bytes;
}

TensorView rows_of(const TensorView& matrix, uint64_t first, uint64_t count) {
  TensorView part = matrix;
  part.shape[0] = count;
  part.first_row += first;
  if (matrix.rows) return part;
  const uint64_t row = matrix.bytes.size() / matrix.shape[0];
  part.bytes = matrix.bytes.subspan(first * row, count * row);
  return part;
}

std::string text_of(std::span<const uint64_t> shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

const char* name(DType dtype) { return info_of(dtype).name; }
uint64_t block_elements(DType dtype) { return info_of(dtype).elements; }
uint64_t block_bytes(DType dtype) { return info_of(dtype).bytes; }

uint64_t element_count(std::span<const uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t extent : shape) count = multiply(count, extent, "elements");
  return count;
}

uint64_t bytes_for(DType dtype, std::span<const uint64_t> shape) {
  const uint64_t count = element_count(shape);
  const TypeInfo type = info_of(dtype);
  const uint64_t columns = shape.empty() ? 1 : shape.back();
  if (columns % type.elements != 0) {
    throw Error(Code::bad_file, "rows have " + std::to_string(columns) + " elements, which is no multiple of " +
                                    type.name + "'s block of " + std::to_string(type.elements));
  }
  return multiply(count / type.elements, type.bytes, "bytes");
}

void to_float(const TensorView& tensor, uint64_t first, std::span<float> out) {
  const uint64_t count = element_count(tensor.shape);
  if (first > count || out.size() > count - first) {
    throw Error(Code::invalid_argument,
                "elements " + std::to_string(first) + " to " + std::to_string(first + out.size()) +
                    " were asked for, but the tensor has " + std::to_string(count),
                printable(tensor.name));
  }
  const uint64_t block = block_elements(tensor.dtype);
  if (first % block != 0) {
    throw Error(Code::invalid_argument,
                "decoding was to start at element " + std::to_string(first) + ", which is no multiple of " +
                    std::to_string(block),
                printable(tensor.name));
  }
  if (out.empty()) return;
  if (tensor.rows) return compute_rows(tensor, first, out);
  const std::byte* bytes = tensor.bytes.data();
  switch (tensor.dtype) {
    case DType::f32:
    case DType::dequantised:
      std::memcpy(out.data(), bytes + first * 4, out.size_bytes());
      break;
    case DType::f16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = half_to_float(load16(bytes + (first + i) * 2));
      break;
    case DType::bf16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = bfloat16_to_float(load16(bytes + (first + i) * 2));
      break;
    case DType::u8:
    case DType::i8:
    case DType::i32:
    case DType::i64:
    case DType::f8_e4m3:
      throw Error(Code::unsupported, std::string(name(tensor.dtype)) + " is no type of a matrix",
                  printable(tensor.name));
    default:
      decode_blocks(tensor.dtype, bytes + first / block * block_bytes(tensor.dtype), out);
      break;
  }
}

}  // namespace weft
