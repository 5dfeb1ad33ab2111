// MXFP4 as it is.
#include "formats/blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::mxfp4};

uint64_t row_bytes(uint32_t blocks) { return blocks * 16ull + (blocks + 1ull) / 2 * 4; }

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  copy_blocks(tile, place, from, row, 0);
}

}  // namespace

NumberFormat mxfp4_format() { return {"mxfp4", DType::mxfp4, kFrom, Format::q8, true, row_bytes, nullptr, copy}; }

}  // namespace weft
