// GGUF's block formats: small integers that share scales, along a row. The layouts are those of ggml-common.h and
// ggml-quants.c (https://github.com/ggml-org/ggml/tree/master/src); numbers are little-endian, scales f16 unless said
// otherwise. Every element is computed in float32, in the order the formulas in quants.cpp have, without fused
// multiply-adds: bit for bit what ggml and the PyPI package gguf compute.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "format/tensor.h"

namespace weft {

// Decodes one block: reads block_bytes(type) bytes at any alignment, writes block_elements(type) floats. Any bits are a
// block; infinite and NaN scales give what IEEE 754 says.
using BlockDecoder = void (*)(const std::byte* block, float* out);

// nullptr for F32, F16 and BF16.
BlockDecoder block_decoder(DType dtype);

// Q8_0, Q4_0 and Q5_0 are 32 integers times one scale, which q8 holds without rounding.
struct ScaledBlock {
  uint16_t scale;  // f16
  std::array<int8_t, kQ8BlockElements> values;
};
bool is_scaled_integers(DType dtype);
// Of one of these types.
ScaledBlock scaled_block(DType dtype, const std::byte* block);

}  // namespace weft
