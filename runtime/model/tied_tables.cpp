#include "model/tied_tables.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

#include "base/all_cores.h"
#include "format/rounding_bound.h"

namespace weft {
namespace {

constexpr uint64_t kRowsAtOnce = 4096;

// A row of a table as floats, with their bounds.
struct Row {
  std::vector<float> values, bounds;

  explicit Row(uint64_t columns) : values(columns), bounds(columns) {}
  void read(const TensorView& table, uint64_t row) {
    to_float(table, row * values.size(), values);
    rounding_bounds(table, row * values.size(), values, bounds);
  }
};

struct Sums {
  double largest = 0, largest_value = 0;
  double squares = 0, finer_squares = 0;

  void add(const Sums& other) {
    largest = std::max(largest, other.largest);
    largest_value = std::max(largest_value, other.largest_value);
    squares += other.squares;
    finer_squares += other.finer_squares;
  }
};

// False if an element differs by more than its bounds, or is not finite. Adds the row to the sums.
bool add_if_equal(const Row& finer, const Row& coarser, Sums& sums) {
  float largest = 0, largest_value = 0;
  double squares = 0, finer_squares = 0;
  bool equal = true;
  for (size_t i = 0; i < finer.values.size(); ++i) {
    const float a = finer.values[i], b = coarser.values[i], off = std::abs(a - b);
    const float bound = finer.bounds[i] + coarser.bounds[i];
    equal &= off <= bound && bound <= std::numeric_limits<float>::max();  // false for NaN
    largest = std::max(largest, off);
    largest_value = std::max(largest_value, std::abs(b));
    squares += double{off} * off;
    finer_squares += double{a} * a;
  }
  sums.add({largest, largest_value, squares, finer_squares});
  return equal;
}

// The same for rows [begin, end), by one thread. different: some thread has found a row that differs.
void add_rows(const TensorView& finer, const TensorView& coarser, uint64_t begin, uint64_t end,
              std::atomic<bool>& different, Sums& sums) {
  Row a(finer.shape[1]), b(finer.shape[1]);
  for (uint64_t row = begin; row < end && !different; ++row) {
    a.read(finer, row);
    b.read(coarser, row);
    if (!add_if_equal(a, b, sums)) different = true;
  }
}

}  // namespace

std::optional<TableDifference> difference_by_rounding(const TensorView& finer, const TensorView& coarser,
                                                      const std::function<void(uint64_t)>& progress) {
  if (finer.dtype == coarser.dtype || finer.shape != coarser.shape) return std::nullopt;
  if (finer.rows || coarser.rows) return std::nullopt;  // how a tool rounds is not known
  Sums all;
  std::atomic<bool> different = false;
  std::mutex adding;
  for (uint64_t first = 0; first < finer.shape[0]; first += kRowsAtOnce) {
    progress(first);
    on_all_cores(std::min(kRowsAtOnce, finer.shape[0] - first), [&](uint64_t begin, uint64_t end) {
      Sums own;
      add_rows(finer, coarser, first + begin, first + end, different, own);
      const std::lock_guard lock(adding);
      all.add(own);
    });
    if (different) return std::nullopt;
  }
  const double relative = all.finer_squares > 0 ? std::sqrt(all.squares / all.finer_squares) : 0;
  return TableDifference{all.largest, relative, all.largest_value};
}

VocabularyTables choose_tables(const Parts::Vocabulary& stored, bool by_rounding,
                               const std::function<void(uint64_t)>& progress) {
  const auto [embedding, output] = stored;
  if (!output) return {embedding, nullptr, nullptr, {}};
  if (Parts::same_bytes(*output, *embedding)) return {embedding, nullptr, output, {}};
  const bool output_finer = output->bytes.size() > embedding->bytes.size();
  const TensorView *const finer = output_finer ? output : embedding, *const coarser = output_finer ? embedding : output;
  if (by_rounding)
    if (const auto difference = difference_by_rounding(*finer, *coarser, progress))
      return {finer, nullptr, coarser, *difference};
  return {embedding, output, nullptr, {}};
}

}  // namespace weft
