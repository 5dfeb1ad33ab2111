#include "formats/format.h"

#include <cstring>

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q4_1, DType::q4_0};

uint64_t row_bytes(uint32_t blocks) { return blocks * 20ull; }

void store(std::byte* tile, uint32_t place, const PackedRow& from, uint32_t blocks) {
  std::byte* const scales = tile + size_t{blocks} * TILE_ROWS * 16;
  for (uint32_t block = 0; block < blocks; ++block) {
    uint32_t words[4] = {};
    for (uint32_t e = 0; e < BLOCK; ++e)
      words[e / 8] |= static_cast<uint32_t>(from.bytes[block * BLOCK + e]) << (e % 8 * 4);
    std::memcpy(word_of(tile, place, block, blocks), words, 16);
    const uint16_t halves[2] = {from.halves[block], from.minima[block]};
    std::memcpy(scales + size_t{IN_TILE(place, block, blocks)} * 4, halves, 4);
  }
}

}  // namespace

NumberFormat q4_format() { return {"q4", DType::q4_1, kFrom, Format::q4, true, row_bytes, store, nullptr}; }

}  // namespace weft
