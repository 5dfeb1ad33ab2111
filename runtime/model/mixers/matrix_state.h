// The state of linear attention: a matrix for each head, and the last inputs. shaders/abi.h and scan.comp say how
// tokens are taken back.
#pragma once

#include <algorithm>
#include <vector>

#include "model/copied_range.h"
#include "ops/linear_attention.h"

namespace weft {

// The matrices are those of the last windows of tokens. A pass needs the one of the last whole window before it, and
// the inputs since.
struct MatrixState {
  static constexpr bool kRecurrent = true;
  static constexpr uint64_t scratch_bytes = 0;

  ops::LinearState kept;

  explicit MatrixState(const ops::LinearShape& shape) {
    kept.matrices.bytes = ops::matrices_bytes(shape);
    kept.rows.bytes = ops::kept_rows_bytes(shape);
  }
  std::vector<View*> arrays() { return {&kept.matrices, &kept.rows}; }
  bool holds(uint64_t tokens, uint64_t written) const { return tokens + ops::kScanReach >= written; }
  std::vector<View> parts(uint64_t tokens, uint64_t) const {
    if (tokens == 0) return {};
    const uint64_t own = kept.matrices.bytes / SCAN_SLOTS;
    View slot = kept.matrices;  // not .part(): layouts ask without a buffer
    slot.offset += (tokens - 1) / ops::kScanWindow % SCAN_SLOTS * own;
    slot.bytes = own;
    return {slot, kept.rows};
  }
  // A copy has the matrix of the start of the window that token n - 1 is in: it can go on from any place in that
  // window, but not from the window's end.
  static CopiedRange copied(uint64_t tokens) {
    if (tokens == 0) return {0, 0};
    const uint64_t first = (tokens - 1) / ops::kScanWindow * ops::kScanWindow;
    return {first, std::min(tokens, first + ops::kScanWindow - 1)};
  }
  double bytes_read(uint64_t, uint64_t) const {
    const double rows = (ops::kScanWindow - 1) / 2.0;  // kept ones, on average
    return static_cast<double>(kept.matrices.bytes) / SCAN_SLOTS +
           static_cast<double>(kept.rows.bytes) / ops::kKeptRows * rows;
  }
};

}  // namespace weft
