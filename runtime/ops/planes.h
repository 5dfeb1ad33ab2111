// Writing rows as planes of bits, for vocabulary tables (shaders/abi.h has the layout).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

// A row of a tile, blocks * BLOCK values, zeros behind the columns. tile: the tile's bytes, all zero where the row is.
void store_q8_planes(std::byte* tile, uint32_t row, std::span<const int8_t> values, std::span<const uint16_t> scales);
void store_q4_planes(std::byte* tile, uint32_t row, std::span<const int8_t> values, std::span<const uint16_t> scales,
                     std::span<const uint16_t> minima);
void store_f16_planes(std::byte* tile, uint32_t row, std::span<const uint16_t> halves);

uint32_t q8_plane_row_bytes(uint32_t blocks);
uint32_t q4_plane_row_bytes(uint32_t blocks);
uint32_t f16_plane_row_bytes(uint32_t blocks);

}  // namespace weft
