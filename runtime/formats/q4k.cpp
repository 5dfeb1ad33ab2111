// GGUF's Q4_K as it is.
#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q4_k};
constexpr uint32_t kBits = 4;

uint64_t row_bytes(uint32_t blocks) { return super_row_bytes(blocks, kBits); }

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  const uint32_t supers = super_blocks_of(from);
  for (uint32_t super = 0; super < supers; ++super) {
    const SuperBlock block = read_super_block(from, row, super);
    SuperWords words;
    words.set_lower(block);
    words.set_scales(block, kBits);
    words.store(tile, place, super, supers, kBits);
  }
}

}  // namespace

NumberFormat q4k_format() { return {"q4k", DType::q4_k, kFrom, Format::q4, true, row_bytes, nullptr, copy}; }

}  // namespace weft
