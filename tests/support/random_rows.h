// Rows of made models' tensors, in every type that weft-make-model writes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "format/tensor.h"

namespace weft {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): counters in, independent-looking bits out.
uint64_t mix_bits(uint64_t x);

// Appends a row. f32, f16, bf16 and q8_0 hold these numbers, rounded; blocks of other types are random bits of their
// own with the deviation 1 / sqrt(numbers of the row). Throws std::invalid_argument for a type that is not written.
void append_row(std::string& bytes, DType type, std::span<const float> row);

}  // namespace weft
