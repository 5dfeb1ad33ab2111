// Projections of a part of the vocabulary table, beside the whole one.
#pragma once

namespace weft::microbench {

void register_heads();

}  // namespace weft::microbench
