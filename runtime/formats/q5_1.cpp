// GGUF's Q5_1 as it is.
#include "formats/blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q5_1};

uint64_t row_bytes(uint32_t blocks) { return blocks * 24ull; }

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  copy_blocks(tile, place, from, row, 0);
}

}  // namespace

NumberFormat q5_1_format() { return {"q5_1", DType::q5_1, kFrom, Format::q8, true, row_bytes, nullptr, copy}; }

}  // namespace weft
