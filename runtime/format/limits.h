// Limits on the host memory that a file can make a reader use. A value in JSON form takes 40 bytes or more, but only
// one or two bytes of the file.
#pragma once

#include <cstdint>

namespace weft {

inline constexpr uint64_t kMaxValues = uint64_t{1} << 24;     // in one GGUF header or one JSON document
inline constexpr uint64_t kMaxTensors = uint64_t{1} << 20;    // in one file
inline constexpr uint64_t kMaxJsonBytes = uint64_t{1} << 28;  // of one JSON document
inline constexpr int kMaxJsonDepth = 64;                      // arrays and objects inside one another
inline constexpr int kMaxGgufArrayDepth = 4;

}  // namespace weft
