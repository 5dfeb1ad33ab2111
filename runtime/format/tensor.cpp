#include "format/tensor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "format/quote.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "both file formats are read as little-endian memory");

uint64_t element_bytes(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

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

void decode_q8(const std::byte* block, std::span<float> out) {
  for (size_t i = 0; i < out.size(); block += kQ8BlockBytes) {
    const float scale = half_to_float(load16(block));
    const size_t n = std::min<size_t>(kQ8BlockElements, out.size() - i);
    for (size_t k = 0; k < n; ++k) out[i + k] = scale * static_cast<float>(static_cast<int8_t>(block[2 + k]));
    i += n;
  }
}

}  // namespace

const char* name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::q8_0:
      return "Q8_0";
  }
  return "?";
}

uint64_t element_count(std::span<const uint64_t> shape) {
  uint64_t count = 1;
  for (const uint64_t extent : shape) count = multiply(count, extent, "elements");
  return count;
}

uint64_t bytes_for(DType dtype, std::span<const uint64_t> shape) {
  const uint64_t count = element_count(shape);
  if (dtype != DType::q8_0) return multiply(count, element_bytes(dtype), "bytes");
  const uint64_t columns = shape.empty() ? 1 : shape.back();
  if (columns % kQ8BlockElements != 0) {
    throw Error(Code::bad_file, "rows have " + std::to_string(columns) +
                                    " elements, which is no multiple of Q8_0's block of " +
                                    std::to_string(kQ8BlockElements));
  }
  return multiply(count / kQ8BlockElements, kQ8BlockBytes, "bytes");
}

void to_float(const TensorView& tensor, uint64_t first, std::span<float> out) {
  const uint64_t count = element_count(tensor.shape);
  if (first > count || out.size() > count - first) {
    throw Error(Code::invalid_argument,
                "elements " + std::to_string(first) + " to " + std::to_string(first + out.size()) +
                    " were asked for, but the tensor has " + std::to_string(count),
                printable(tensor.name));
  }
  if (tensor.dtype == DType::q8_0 && first % kQ8BlockElements != 0) {
    throw Error(Code::invalid_argument,
                "decoding was to start at element " + std::to_string(first) + ", which is no multiple of " +
                    std::to_string(kQ8BlockElements),
                printable(tensor.name));
  }
  if (out.empty()) return;
  const std::byte* bytes = tensor.bytes.data();
  switch (tensor.dtype) {
    case DType::f32:
      std::memcpy(out.data(), bytes + first * 4, out.size_bytes());
      break;
    case DType::f16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = half_to_float(load16(bytes + (first + i) * 2));
      break;
    case DType::bf16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = bfloat16_to_float(load16(bytes + (first + i) * 2));
      break;
    case DType::q8_0:
      decode_q8(bytes + first / kQ8BlockElements * kQ8BlockBytes, out);
      break;
  }
}

}  // namespace weft
