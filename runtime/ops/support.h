// Shared by the files of the operations. Not for other modules.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "gpu/device.h"
#include "ops/ops.h"

namespace weft::ops {

inline uint32_t ceil_div(uint32_t value, uint32_t step) { return (value + step - 1) / step; }

// A wrong shape is a mistake in Weft: found in release builds too, before the GPU reads past a buffer.
inline void require(bool holds, const char* operation, const char* what) {
  if (!holds) throw Error(Code::internal, what, operation);
}

inline void require_bytes(const View& view, uint64_t needed, const char* operation, const char* what) {
  if (view.bytes < needed)
    throw Error(
        Code::internal,
        std::string(what) + " has " + std::to_string(view.bytes) + " bytes, needed are " + std::to_string(needed),
        operation);
}

// Formats, capacity and bytes of a cache (rope.cpp).
void require_cache(const HeadShape& shape, const CacheView& cache, const char* operation);

}  // namespace weft::ops
