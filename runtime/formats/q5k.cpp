// GGUF's Q5_K as it is. Q4_K has the same scales, and holds as well.
#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q5_k, DType::q4_k};
constexpr uint32_t kBits = 5;

uint64_t row_bytes(uint32_t blocks) { return super_row_bytes(blocks, kBits); }

// The upper bit of a block's numbers: of 4j + k in bit 8k + j.
uint32_t upper_bits(const uint8_t* quants) {
  uint32_t word = 0;
  for (uint32_t e = 0; e < BLOCK; ++e) word |= static_cast<uint32_t>(quants[e] >> 4) << (e % 4 * 8 + e / 4);
  return word;
}

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  const uint32_t supers = super_blocks_of(from);
  for (uint32_t super = 0; super < supers; ++super) {
    const SuperBlock block = read_super_block(from, row, super);
    SuperWords words;
    words.set_lower(block);
    for (uint32_t b = 0; b < SUPER_BLOCKS; ++b) words.set_upper(b, upper_bits(&block.quants[b * BLOCK]));
    words.set_scales(block, kBits);
    words.store(tile, place, super, supers, kBits);
  }
}

}  // namespace

NumberFormat q5k_format() { return {"q5k", DType::q5_k, kFrom, Format::q8, true, row_bytes, nullptr, copy}; }

}  // namespace weft
