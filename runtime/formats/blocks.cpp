#include "formats/blocks.h"

#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/half.h"
#include "base/quote.h"

namespace weft {
namespace {

SmallBlock read_block(const TensorView& from, uint64_t row, uint32_t index) {
  const uint64_t blocks = from.shape.back() / BLOCK;
  const SmallBlock block = small_block(from.dtype, from.bytes.data(), row * blocks + index);
  const auto refuse = [&](float scale) {
    throw Error(Code::unsupported,
                "the block of element (" + std::to_string(from.first_row + row) + ", " + std::to_string(index * BLOCK) +
                    ") has the scale " + std::to_string(scale),
                "tensor " + printable(from.name));
  };
  if (from.dtype == DType::mxfp4) {
    if (block.scale == kNoPower) refuse(std::numeric_limits<float>::quiet_NaN());
    return block;
  }
  for (const uint16_t half : {block.scale, block.minimum})
    if ((half & 0x7c00) == 0x7c00) refuse(half_to_float(half));
  return block;
}

// The lower four bits of a block, in the order of super-blocks.
void set_lower(std::byte* word, const SmallBlock& block) {
  for (uint32_t i = 0; i < BLOCK / 2; ++i) {
    const uint8_t* const pair = &block.quants[i / 4 * 8 + i % 4];
    word[i] = static_cast<std::byte>((pair[0] & 15) | (pair[4] & 15) << 4);
  }
}

uint32_t fifth_bits(const SmallBlock& block) {
  uint32_t word = 0;
  for (uint32_t e = 0; e < BLOCK; ++e) word |= static_cast<uint32_t>(block.quants[e] >> 4) << (e % 4 * 8 + 7 - e / 4);
  return word;
}

}  // namespace

void copy_blocks(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row, uint8_t flipped) {
  const auto blocks = static_cast<uint32_t>(from.shape.back() / BLOCK);
  const bool has_minimum = from.dtype == DType::q5_1,
             has_fifth = from.dtype == DType::q5_0 || from.dtype == DType::q5_1;
  std::byte* const fifth = tile + size_t{blocks} * TILE_ROWS * 16;
  std::byte* const scales = fifth + (has_fifth ? size_t{blocks} * TILE_ROWS * 4 : 0);
  for (uint32_t k = 0; k < blocks; ++k) {
    SmallBlock block = read_block(from, row, k);
    for (uint8_t& quant : block.quants) quant ^= flipped;
    set_lower(word_of(tile, place, k, blocks), block);
    const uint32_t bits = fifth_bits(block);
    if (has_fifth) std::memcpy(fifth + size_t{IN_TILE(place, k, blocks)} * 4, &bits, sizeof bits);
    if (has_minimum) {
      const uint32_t line = block.scale | static_cast<uint32_t>(block.minimum) << 16;
      std::memcpy(scales + size_t{IN_TILE(place, k, blocks)} * 4, &line, sizeof line);
    } else {
      std::memcpy(scales + size_t{IN_TILE(place, k / 2, (blocks + 1) / 2)} * 4 + k % 2 * 2, &block.scale, 2);
    }
  }
}

}  // namespace weft
