// GGUF's Q6_K as it is.
#include "formats/super_blocks.h"

#include <cstring>

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q6_k};
constexpr uint32_t kBits = 6;

uint64_t row_bytes(uint32_t blocks) {
  return super_row_bytes(blocks, kBits) + (uint64_t{blocks} / SUPER_BLOCKS + 1) / 2 * 4;
}

// The upper two bits of 16 numbers, as two's complement has them: of 4j + k in bits 8k + 7 - 2j and below.
uint32_t upper_bits(const uint8_t* quants) {
  uint32_t word = 0;
  for (uint32_t e = 0; e < 16; ++e) word |= (static_cast<uint32_t>(quants[e] >> 4) ^ 2u) << (e % 4 * 8 + 6 - e / 4 * 2);
  return word;
}

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  const uint32_t supers = super_blocks_of(from);
  std::byte* const halves = tile + super_row_bytes(supers * SUPER_BLOCKS, kBits) * TILE_ROWS;
  for (uint32_t super = 0; super < supers; ++super) {
    const SuperBlock block = read_super_block(from, row, super);
    SuperWords words;
    words.set_lower(block);
    for (uint32_t i = 0; i < SUPER_BLOCK / 16; ++i) words.set_upper(i, upper_bits(&block.quants[i * 16]));
    std::memcpy(words.scales(kBits), block.scales.data(), 16);
    words.store(tile, place, super, supers, kBits);
    std::memcpy(halves + size_t{IN_TILE(place, super / 2, (supers + 1) / 2)} * 4 + super % 2 * 2, &block.d, 2);
  }
}

}  // namespace

NumberFormat q6_format() { return {"q6", DType::q6_k, kFrom, Format::q8, false, row_bytes, nullptr, copy}; }

}  // namespace weft
