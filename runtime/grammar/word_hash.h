// Hashing of lists of numbers, for tables keyed by sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft {

struct WordHash {
  size_t operator()(const std::vector<uint32_t>& words) const {
    uint64_t hash = words.size();
    for (const uint32_t word : words) {
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;  // 2^64 over the golden ratio
      hash ^= hash >> 29;
    }
    return static_cast<size_t>(hash);
  }
};

}  // namespace weft
