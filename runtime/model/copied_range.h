// Numbers of tokens that a copy of a layer's state can go on from.
#pragma once

#include <cstdint>

namespace weft {

struct CopiedRange {
  uint64_t first, last;
};

}  // namespace weft
