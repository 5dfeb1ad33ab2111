// The basis that suits a vocabulary table and the hidden states it is multiplied by.
#pragma once

#include <vector>

#include "format/tensor.h"
#include "ops/basis.h"

namespace weft {

// Of a model's hidden states, by column.
struct StateStatistics {
  std::vector<float> mean;      // (width) finite
  std::vector<float> variance;  // (width) finite, not negative
};

// With s the standard deviations of the states less their mean and r the root mean squares of the table's columns: the
// columns in the order of s r, which is how much of a logit they decide; and scales of sqrt(s / r), which make
// |row| |state| as small as scales can (Cauchy and Schwarz: at least the sum of s r). So rows that are rounded or cut
// off by bits lose the least of a logit. Reads some of the rows of the (rows, width) tensor.
Basis basis_for(const StateStatistics& states, const TensorView& table);

}  // namespace weft
