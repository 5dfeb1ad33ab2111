// Rounding of floats to GGUF's block types: each block gets the scale, minimum and integers with a small sum of
// importance * error^2. The search is Weft's own: candidates for the scale around the range of the block, least squares
// for the integers that each of them gives (Lloyd 1982, "Least squares quantization in PCM"), then the nearest integers
// again. The layouts are in format/quants.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "format/tensor.h"

namespace weft {

// Q4_0, Q5_0, Q5_1, IQ4_NL, MXFP4, Q4_K, Q5_K and Q6_K.
bool is_rounded_by_search(DType type);

// Rounds a row to one of these types. values: of magnitude 65504 at most, a whole number of blocks. importance: as many
// factors of the squared errors, finite and none negative; empty: all the same. In a block only their ratios count, and
// those below 1e-10 of the largest as that; if all are 0, they count as 1. out: block_bytes(type) for each block.
void round_row(DType type, std::span<const float> values, std::span<const float> importance, std::byte* out);

// The rounding of one block, by type; importance has a factor for each value. For round_row() only.
using BlockRounder = void (*)(const float* values, const float* importance, std::byte* out);
BlockRounder small_rounder(DType type);  // blocks of 32; nullptr for others
BlockRounder super_rounder(DType type);  // blocks of 256; nullptr for others

}  // namespace weft
