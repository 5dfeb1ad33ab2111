// What a file may ask of the host's memory. A value in JSON form takes 40 bytes and more where the file may spend one
// or two.
#pragma once

#include <cstdint>

namespace weft {

inline constexpr uint64_t kMaxValues = uint64_t{1} << 24;     // in one GGUF header or one JSON document
inline constexpr uint64_t kMaxTensors = uint64_t{1} << 20;    // in one file
inline constexpr uint64_t kMaxJsonBytes = uint64_t{1} << 28;  // of one JSON document
inline constexpr int kMaxJsonDepth = 64;                      // arrays and objects inside one another
inline constexpr int kMaxGgufArrayDepth = 4;

}  // namespace weft
