// Room that filter needs after the scores.
#pragma once

#include "ops/ops.h"

namespace weft::ops {

// Bytes of the scores that penalize and filter take: `rows` floats, and after them scratch, zero when first used.
uint64_t score_bytes(uint32_t rows);
View filter_scratch(const View& scores, uint32_t rows);  // of such a view: abi::Narrowed, and more

}  // namespace weft::ops
