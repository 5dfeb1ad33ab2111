#include "formats/super_blocks.h"

#include <cstring>

#include "base/error.h"
#include "base/quote.h"

namespace weft {

void SuperWords::set_lower(const SuperBlock& block) {
  for (uint32_t eight = 0; eight < SUPER_BLOCK / 8; ++eight) {
    const uint8_t* const quants = &block.quants[eight * 8];
    for (uint32_t k = 0; k < 4; ++k)
      bytes[eight * 4 + k] = static_cast<std::byte>((quants[k] & 15) | (quants[k + 4] & 15) << 4);
  }
}

void SuperWords::set_lower_two(const SuperBlock& block) {
  for (uint32_t e = 0; e < SUPER_BLOCK; ++e)
    bytes[e / 16 * 4 + e % 4] |= static_cast<std::byte>((block.quants[e] & 3) << (e % 16 / 4 * 2));
}

void SuperWords::set_upper(uint32_t index, uint32_t word) {
  std::memcpy(bytes + SUPER_BLOCKS * 16 + index * 4, &word, 4);
}

void SuperWords::set_scales(const SuperBlock& block, uint32_t bits, int less) {
  uint32_t words[4] = {0, 0, 0, block.d | static_cast<uint32_t>(block.dmin) << 16};
  for (uint32_t b = 0; b < SUPER_BLOCKS; ++b) {
    const auto scale = static_cast<uint32_t>(block.scales[b] + less), minimum = static_cast<uint32_t>(block.minima[b]);
    words[0] |= (scale & 15) << (b * 4);
    words[1] |= (minimum & 15) << (b * 4);
    words[2] |= scale >> 4 << (b * 2) | minimum >> 4 << (b * 2 + 16);
  }
  std::memcpy(scales(bits), words, sizeof words);
}

void SuperWords::set_scales_of_three(const SuperBlock& block) {
  const uint32_t low = block.d & 255u, high = block.d >> 8;
  uint32_t words[4] = {low << 24, high << 24, low << 24, high << 24};
  for (uint32_t s = 0; s < block.scales.size(); ++s)
    words[s / 4] |= (static_cast<uint32_t>(block.scales[s]) & 63) << s % 4 * 6;
  std::memcpy(scales(3), words, sizeof words);
}

void SuperWords::store(std::byte* tile, uint32_t place, uint32_t super, uint32_t supers, uint32_t bits) const {
  const uint32_t words = SUPER_WORDS(bits), lower = bits < 4 ? SUPER_BLOCKS / 2 : SUPER_BLOCKS;
  const uint32_t upper = words - 1 - lower,
                 of_upper = upper > 0 ? lower / upper : 0;  // words of lower bits of such a word
  const auto put = [&](uint32_t to, uint32_t from) {
    std::memcpy(word_of(tile, place, super * words + to, supers * words), bytes + from * 16, 16);
  };
  put(0, words - 1);
  for (uint32_t k = 0; k < lower; ++k) put(upper > 0 ? 2 + k + k / of_upper : 1 + k, k);
  for (uint32_t k = 0; k < upper; ++k) put(1 + k * (1 + of_upper), lower + k);
}

uint64_t four_bit_row_bytes(uint32_t blocks) { return super_row_bytes(blocks, 4); }
uint64_t three_bit_row_bytes(uint32_t blocks) { return super_row_bytes(blocks, 3); }

void copy_four_bits(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  const uint32_t supers = super_blocks_of(from);
  for (uint32_t super = 0; super < supers; ++super) {
    const SuperBlock block = read_super_block(from, row, super);
    SuperWords words;
    words.set_lower(block);
    words.set_scales(block, 4, 32);
    words.store(tile, place, super, supers, 4);
  }
}

void copy_three_bits(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  const uint32_t supers = super_blocks_of(from);
  for (uint32_t super = 0; super < supers; ++super) {
    const SuperBlock block = read_super_block(from, row, super);
    SuperWords words;
    words.set_lower_two(block);
    for (uint32_t b = 0; b < SUPER_BLOCKS; ++b) {
      uint32_t upper = 0;
      for (uint32_t e = 0; e < BLOCK; ++e)
        upper |= static_cast<uint32_t>(block.quants[b * BLOCK + e] >> 2) << (e % 4 * 8 + e / 4);
      std::memcpy(words.bytes + SUPER_BLOCKS * 8 + b * 4, &upper, sizeof upper);
    }
    words.set_scales_of_three(block);
    words.store(tile, place, super, supers, 3);
  }
}

uint32_t super_blocks_of(const TensorView& from) {
  if (from.shape.back() % SUPER_BLOCK != 0)
    throw Error(Code::unsupported,
                "rows have " + std::to_string(from.shape.back()) + " elements, which is no multiple of " +
                    std::to_string(SUPER_BLOCK),
                "tensor " + printable(from.name));
  return static_cast<uint32_t>(from.shape.back() / SUPER_BLOCK);
}

SuperBlock read_super_block(const TensorView& from, uint64_t row, uint32_t super) {
  const uint64_t index = row * super_blocks_of(from) + super;
  const SuperBlock block = super_block(from.dtype, from.bytes.data() + index * block_bytes(from.dtype));
  for (const uint16_t half : {block.d, block.dmin})
    if ((half & 0x7c00) == 0x7c00)
      throw Error(Code::unsupported,
                  "the block of element (" + std::to_string(from.first_row + row) + ", " +
                      std::to_string(super * SUPER_BLOCK) + ") has the scale " + std::to_string(half_to_float(half)),
                  "tensor " + printable(from.name));
  return block;
}

}  // namespace weft
