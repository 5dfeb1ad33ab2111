// Vocabulary projection.
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// logits[t] = table x[t]: the table that gather reads, used the other way round (Press and Wolf 2017, "Using the output
// embedding to improve language models").      table (vocabulary, cols), x (tokens, cols), logits (tokens, vocabulary)
Rows project(const Rows& table, const Rows& x);

}  // namespace weft::reference
