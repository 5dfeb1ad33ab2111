// A row-major matrix of doubles: what the references take and give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace weft::reference {

struct Rows {
  uint32_t rows = 0, cols = 0;
  std::vector<double> values;  // (rows, cols)

  Rows() = default;
  Rows(uint32_t row_count, uint32_t col_count)
      : rows(row_count), cols(col_count), values(size_t{row_count} * col_count) {}
  std::span<double> row(uint32_t r) { return {&values[size_t{r} * cols], cols}; }
  std::span<const double> row(uint32_t r) const { return {&values[size_t{r} * cols], cols}; }
};

}  // namespace weft::reference
