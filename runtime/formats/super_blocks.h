// Code that the formats of super-blocks share. Not for other modules.
#pragma once

#include "format/quants.h"
#include "formats/format.h"

namespace weft {

// Bytes of a row without what comes after the words. bits: of a number.
constexpr uint64_t super_row_bytes(uint32_t blocks, uint32_t bits) {
  return uint64_t{blocks} / SUPER_BLOCKS * SUPER_WORDS(bits) * 16;
}

// A super-block's words, 16 bytes each, before they are spread over a tile: lower bits, then upper ones, then scales.
struct SuperWords {
  std::byte bytes[SUPER_WORDS(6) * 16] = {};

  // The lower four bits of all numbers, or two.
  void set_lower(const SuperBlock& block);
  void set_lower_two(const SuperBlock& block);
  // The 32-bit word `index` of the upper bits.
  void set_upper(uint32_t index, uint32_t word);
  // The scales and minima of Q4_K and Q5_K. less: what is subtracted from a scale before use.
  void set_scales(const SuperBlock& block, uint32_t bits, int less = 0);
  // The scales of formats of three bits.
  void set_scales_of_three(const SuperBlock& block);
  std::byte* scales(uint32_t bits) { return bytes + (SUPER_WORDS(bits) - 1) * 16; }
  // super: of `supers` of the row.
  void store(std::byte* tile, uint32_t place, uint32_t super, uint32_t supers, uint32_t bits) const;
};

// Stores a row of a type whose numbers have 4 bits and no minimum, or 3 bits.
void copy_four_bits(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row);
void copy_three_bits(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row);
uint64_t four_bit_row_bytes(uint32_t blocks);
uint64_t three_bit_row_bytes(uint32_t blocks);

// The super-block of a tensor's row; throws Error(unsupported) if a scale is not finite, or if the row is no whole
// number of super-blocks (files of these types have no other rows).
SuperBlock read_super_block(const TensorView& from, uint64_t row, uint32_t super);
uint32_t super_blocks_of(const TensorView& from);  // in a row

}  // namespace weft
