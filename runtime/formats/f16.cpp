#include "formats/format.h"

#include <cstring>

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::f16, DType::f32, DType::bf16};

uint64_t row_bytes(uint32_t blocks) { return blocks * 64ull; }

void store(std::byte* tile, uint32_t place, const PackedRow& from, uint32_t blocks) {
  for (uint32_t k = 0; k < blocks * 4; ++k) std::memcpy(word_of(tile, place, k, blocks * 4), &from.halves[k * 8], 16);
}

}  // namespace

NumberFormat f16_format() { return {"f16", DType::f16, kFrom, Format::f16, false, row_bytes, store, nullptr}; }

}  // namespace weft
