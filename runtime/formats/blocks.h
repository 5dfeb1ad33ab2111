// Code that the formats of blocks of 32 numbers share. Not for other modules.
#pragma once

#include "format/quants.h"
#include "formats/format.h"

namespace weft {

// Stores a row of Q4_0, Q5_0, Q5_1, Q1_0, Q2_0, IQ4_NL or MXFP4 in its place of a tile. flipped: bits that are stored
// inverted, which makes the integers two's complement. Throws Error(unsupported) if a scale or a minimum is not finite.
void copy_blocks(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row, uint8_t flipped);

}  // namespace weft
