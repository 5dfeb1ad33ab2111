// GGUF's Q4_0 as it is. Q1_0 and Q2_0 have no finer numbers.
#include "formats/blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q4_0, DType::q1_0, DType::q2_0};

uint64_t row_bytes(uint32_t blocks) { return blocks * 16ull + (blocks + 1ull) / 2 * 4; }

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  copy_blocks(tile, place, from, row, 8);
}

}  // namespace

NumberFormat q4_0_format() { return {"q4_0", DType::q4_0, kFrom, Format::q4, true, row_bytes, nullptr, copy}; }

}  // namespace weft
