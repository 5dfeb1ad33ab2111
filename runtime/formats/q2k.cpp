// GGUF's Q2_K as it is. The ternary types have no finer numbers.
#include <algorithm>
#include <cstring>

#include "formats/super_blocks.h"

namespace weft {
namespace {

constexpr DType kFrom[] = {DType::q2_k, DType::tq1_0, DType::tq2_0};
constexpr uint32_t kBits = 2;

uint64_t row_bytes(uint32_t blocks) { return super_row_bytes(blocks, kBits) + blocks / SUPER_BLOCKS * 4ull; }

// A ternary block as Q2_K's: d quant - d.
void take_minimum(SuperBlock& block, const NumberList& numbers) {
  for (uint8_t& quant : block.quants) quant = static_cast<uint8_t>(numbers.list[quant] + 1);
  block.minima.fill(1);
  block.dmin = block.d;
}

void copy(std::byte* tile, uint32_t place, const TensorView& from, uint64_t row) {
  const uint32_t supers = super_blocks_of(from);
  std::byte* const halves = tile + super_row_bytes(supers * SUPER_BLOCKS, kBits) * TILE_ROWS;
  for (uint32_t super = 0; super < supers; ++super) {
    SuperBlock block = read_super_block(from, row, super);
    if (has_list(from.dtype)) take_minimum(block, numbers_of(from.dtype));
    SuperWords words;
    words.set_lower_two(block);
    for (uint32_t s = 0; s < block.scales.size(); ++s)
      words.scales(kBits)[s] = static_cast<std::byte>(block.scales[s] | block.minima[s] << 4);
    words.store(tile, place, super, supers, kBits);
    const uint32_t notes = block.d | static_cast<uint32_t>(block.dmin) << 16;
    std::memcpy(halves + size_t{IN_TILE(place, super, supers)} * 4, &notes, sizeof notes);
  }
}

}  // namespace

NumberFormat q2k_format() { return {"q2k", DType::q2_k, kFrom, Format::q8, false, row_bytes, nullptr, copy}; }

}  // namespace weft
