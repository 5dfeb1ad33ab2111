// Blocks of the types that native formats copy, with any finite scales.
#pragma once

#include "support/op_inputs.h"

namespace weft::test {

// Places of d and dmin in a block. MXFP4 has an exponent instead, IQ1_M parts of d.
std::vector<size_t> places_of_halves(DType type);
// Random blocks of a type, with all scales but those that are not finite.
std::string random_blocks(DType type, uint32_t rows, uint32_t cols, Random& random);

}  // namespace weft::test
