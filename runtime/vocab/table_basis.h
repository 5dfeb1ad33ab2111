// The basis that suits a vocabulary table and the hidden states it is multiplied by.
#pragma once

#include <vector>

#include "format/tensor.h"
#include "ops/basis.h"

namespace weft {

// Statistics of a model's hidden states, by column.
struct StateStatistics {
  std::vector<float> mean;      // (width) finite
  std::vector<float> variance;  // (width) finite, not negative
};

// The basis for a table. s: the standard deviations of the states; r: the root mean squares of the table's columns.
// Columns come in the order of s r, their share of a logit. Scales are sqrt(s / r), which make |row| |state| as small
// as scales can (Cauchy and Schwarz: at least the sum of s r). So a row that is rounded, or cut off after some bits,
// loses the least of a logit. Reads some of the rows of the (rows, width) tensor.
Basis basis_for(const StateStatistics& states, const TensorView& table);

}  // namespace weft
