// GGUF's Q5_0 as it is.
#include "formats/blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q5_0};

uint64_t row_bytes(uint32_t blocks) { return blocks * 20ull + (blocks + 1ull) / 2 * 4; }

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  copy_blocks(tile, place, from, row, 16);
}

}  // namespace

NumberFormat q5_0_format() { return {"q5_0", DType::q5_0, kFrom, Format::q8, true, row_bytes, nullptr, copy}; }

}  // namespace weft
