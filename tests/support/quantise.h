// Rows of floats as the bytes of a GGUF type, for tests.
#pragma once

#include <span>
#include <vector>

#include "format/tensor.h"

namespace weft::test {

// values: whole rows, each a multiple of the type's block. F32, F16 and BF16; Q4_0, Q5_0 and Q8_0 as ggml's
// quantize_row_*_ref (ggml-quants.c) has them; Q4_1 as Weft writes it. Others: std::invalid_argument.
std::vector<std::byte> quantise(std::span<const float> values, DType type);

}  // namespace weft::test
