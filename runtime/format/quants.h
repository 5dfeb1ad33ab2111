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

// nullptr for types without blocks.
BlockDecoder block_decoder(DType dtype);

// Q8_0, Q4_0, Q5_0 and IQ4_NL are 32 integers times one scale, which q8 holds without rounding.
struct ScaledBlock {
  uint16_t scale;  // f16
  std::array<int8_t, kQ8BlockElements> values;
};
bool is_scaled_integers(DType dtype);
// Reads a block of one of these types.
ScaledBlock scaled_block(DType dtype, const std::byte* block);

// A block of MXFP4 (Open Compute Project 2023, "Microscaling formats MX v1.0", section 5.2): 32 numbers times a power
// of two.
struct PowerBlock {
  int exponent;                                 // of two
  std::array<int8_t, kQ8BlockElements> values;  // twice E2M1's: -12 .. 12
};
PowerBlock power_block(const std::byte* block);

// Q4_0, Q4_1, parts of a block of Q1_0 and Q2_0, and each eighth of a Q4_K block are 32 integers of 0 .. 15, times a
// scale, plus a minimum.
struct NibbleBlock {
  float scale, minimum;  // of f16 but for Q4_K, and Q4_0's minimum if that overflows
  std::array<uint8_t, kQ8BlockElements> values;
};
bool is_nibbles(DType dtype);
// Reads the 32 elements from element 32 * index on of a tensor of one of these types. blocks: of the whole tensor.
NibbleBlock nibble_block(DType dtype, const std::byte* blocks, uint64_t index);

// 32 integers of Q4_0, Q5_0 or Q5_1, none below 0. Values are scale (quant - 8), scale (quant - 16), and scale quant +
// minimum. Q1_0 and Q2_0, whose blocks are larger, are read as Q4_0. IQ4_NL's values are scale
// numbers_of(type).list[quant]. A block of MXFP4 has the four bits of each number, 0 for -0, and its scale is the upper
// half of a float's bits, or kNoPower if the file has a NaN.
inline constexpr uint16_t kNoPower = 0x7f80;
struct SmallBlock {
  uint16_t scale, minimum;  // f16 but of MXFP4; only Q5_1 has a minimum
  std::array<uint8_t, kQ8BlockElements> quants;
};
// Reads the 32 elements from element 32 * index on of a tensor. blocks: of the whole tensor.
SmallBlock small_block(DType dtype, const std::byte* blocks, uint64_t index);

// The 256 integers of a block of Q2_K, Q4_K, Q5_K or Q6_K. Values of Q4_K and Q5_K are (d scale) quant - (dmin
// minimum), with a scale and a minimum for each 32 of them; those of Q2_K likewise for each 16; those of Q6_K (d scale)
// (quant - 32), with a scale for each 16. For types with a list of numbers, numbers_of() says what values are.
struct SuperBlock {
  uint16_t d, dmin;  // f16
  std::array<int8_t, 16> scales;
  std::array<uint8_t, 16> minima;
  std::array<uint8_t, 256> quants;
};
SuperBlock super_block(DType dtype, const std::byte* block);

// Types whose quants stand for numbers of a list: value = (unit d scale) list[quant], with a scale for each `shared` of
// them. IQ4_NL has no unit and its own scale. The lists are those of the device's formats (abi.h): of three bits, the
// third is the sign, or they are two's complement.
struct NumberList {
  float unit;
  uint32_t shared;
  std::array<int8_t, 16> list;
};
bool has_list(DType dtype);
const NumberList& numbers_of(DType dtype);
// A block of one of these types that has super-blocks.
SuperBlock listed_block(DType dtype, const std::byte* block);

}  // namespace weft
