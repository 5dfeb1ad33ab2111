// GGUF's IQ4_NL as it is.
#include "formats/blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::iq4_nl};

uint64_t row_bytes(uint32_t blocks) { return blocks * 16ull + (blocks + 1ull) / 2 * 4; }

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  copy_blocks(tile, place, from, row, 0);
}

}  // namespace

NumberFormat iq4_nl_format() { return {"iq4_nl", DType::iq4_nl, kFrom, Format::q8, true, row_bytes, nullptr, copy}; }

}  // namespace weft
