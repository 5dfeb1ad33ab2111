// The places of small integers in GGUF's blocks. For quants.cpp and code_books.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

inline uint32_t byte_at(const std::byte* at) { return std::to_integer<uint32_t>(*at); }

// Element e of 32 in 16 bytes: the low halves hold the first 16, the high halves the others.
inline uint32_t nibble(const std::byte* bytes, uint32_t e) { return byte_at(bytes + e % 16) >> (e < 16 ? 0 : 4) & 15; }

// Two bits of element e of 256: 64 bytes, 32 for each half of the block, lowest bits first.
inline uint32_t two_bits(const std::byte* bytes, uint32_t e) {
  return byte_at(bytes + e / 128 * 32 + e % 32) >> e % 128 / 32 * 2 & 3;
}
// One bit of element e of 256: 32 bytes.
inline uint32_t one_bit(const std::byte* bytes, uint32_t e) { return byte_at(bytes + e % 32) >> e / 32 & 1; }

}  // namespace weft
