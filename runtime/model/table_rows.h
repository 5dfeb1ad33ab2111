// Rows of a vocabulary table as floats, and products with all of them.
#pragma once

#include <span>
#include <vector>

#include "model/model.h"

namespace weft {

// table[id] * scale for each id, (ids, width), in the file's basis and as the device computes them. ids: rows that the
// table has.
std::vector<float> table_rows(const Model& model, const Table& table, std::span<const uint32_t> ids, float scale);

// The products of every row of the output's table with each of the vectors (count, width), to dots (count, vocab).
void table_dots(const Model& model, std::span<const float> vectors, float* dots);

}  // namespace weft
