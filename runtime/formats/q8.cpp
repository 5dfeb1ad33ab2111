#include "formats/format.h"

#include <cstring>

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q8_0,  DType::q4_0,   DType::q5_0,  DType::q5_1,
                           DType::mxfp4, DType::iq4_nl, DType::nvfp4, DType::dequantised};

uint64_t row_bytes(uint32_t blocks) { return blocks * 32ull + (blocks + 1ull) / 2 * 4; }

void store(std::byte* tile, uint32_t place, const PackedRow& from, uint32_t blocks) {
  for (uint32_t k = 0; k < blocks * 2; ++k) std::memcpy(word_of(tile, place, k, blocks * 2), &from.bytes[k * 16], 16);
  std::byte* const scales = tile + size_t{blocks} * 2 * TILE_ROWS * 16;
  for (uint32_t block = 0; block < blocks; ++block)
    std::memcpy(scales + size_t{IN_TILE(place, block / 2, (blocks + 1) / 2)} * 4 + block % 2 * 2, &from.halves[block],
                2);
}

}  // namespace

NumberFormat q8_format() { return {"q8", DType::q8_0, kFrom, Format::q8, true, row_bytes, store, nullptr}; }

}  // namespace weft
