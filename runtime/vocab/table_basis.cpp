#include "vocab/table_basis.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "format/tensor.h"

namespace weft {
namespace {

constexpr uint64_t kRows = 1024;  // the sample's size
// Least value of a column, relative to the largest: smaller ones tell nothing, and scales stay in the range of halves.
constexpr double kLeast = 1e-3;

// Root mean squares of the columns. Skips elements that are not finite; packing the rows refuses them.
std::vector<double> of_columns(const TensorView& table) {
  const uint64_t rows = table.shape[0], width = table.shape[1], step = std::max<uint64_t>(rows / kRows, 1);
  std::vector<double> sums(width);
  std::vector<float> row(width);
  for (uint64_t r = 0; r < rows; r += step) {
    to_float(table, r * width, row);
    for (uint64_t i = 0; i < width; ++i)
      if (std::isfinite(row[i])) sums[i] += double{row[i]} * row[i];
  }
  for (double& sum : sums) sum = std::sqrt(sum / static_cast<double>((rows + step - 1) / step));
  return sums;
}

void raise_least(std::vector<double>& values) {
  const double most = *std::max_element(values.begin(), values.end());
  for (double& value : values) value = most > 0 ? std::max(value, most * kLeast) : 1;
}

}  // namespace

Basis basis_for(const StateStatistics& states, const TensorView& table) {
  const size_t width = states.mean.size();
  std::vector<double> state(width), column = of_columns(table);
  for (size_t i = 0; i < width; ++i) state[i] = std::sqrt(states.variance[i]);
  raise_least(state);
  raise_least(column);
  std::vector<uint32_t> order(width);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return state[a] * column[a] > state[b] * column[b]; });
  double before = 0, after = 0;  // the table's energy, which the scales keep
  for (size_t i = 0; i < width; ++i) {
    before += column[i] * column[i];
    after += column[i] * state[i];
  }
  std::vector<float> scales(width);
  for (size_t i = 0; i < width; ++i) scales[i] = static_cast<float>(std::sqrt(state[i] / column[i] * (before / after)));
  return {static_cast<uint32_t>(width), order, states.mean, scales};
}

}  // namespace weft
