// Embedding gather.
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// x[t] = table[ids[t]]
Rows gather(const Rows& table, std::span<const uint32_t> ids);

}  // namespace weft::reference
