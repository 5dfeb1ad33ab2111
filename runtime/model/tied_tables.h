// The vocabulary tables of a file. Some files hold a tied table twice, rounded to two types: once for the embedding and
// once for the output. Not for other modules.
#pragma once

#include <functional>
#include <optional>

#include "model/parts.h"

namespace weft {

struct TableDifference {
  double largest = 0;        // of two elements
  double relative = 0;       // Euclidean norm of the difference, relative to the finer table's
  double largest_value = 0;  // in the coarser table
};

// Checks if two tables (rows, columns) of the same shape and of different types can come from the same numbers: no
// element differs by more than rounding to both types explains (format/rounding_bound.h). If so, returns by how much
// they differ, else nothing. In a table that was trained further, many of its millions of elements differ by more. Two
// tables of one type are not compared: one rounding gives one result.
//
// Compares on all cores and stops at the first row that differs. progress is called with the number of compared rows,
// each time before some thousand more are read; it may throw.
std::optional<TableDifference> difference_by_rounding(const TensorView& finer, const TensorView& coarser,
                                                      const std::function<void(uint64_t)>& progress);

// The tables that go to the device.
struct VocabularyTables {
  const TensorView* embedding = nullptr;  // one of both, if they are tied
  const TensorView* output = nullptr;     // nullptr: tied
  const TensorView* left_out = nullptr;   // the other of both; nullptr: the file holds only one, or they are not tied
  TableDifference difference;             // of left_out from the embedding

  const TensorView* projected() const { return output ? output : embedding; }  // hidden states are, on it
  bool tied_by_rounding() const { return left_out && left_out->dtype != embedding->dtype; }
};

// Two tables are tied if their bytes are the same or, unless by_rounding is false, as difference_by_rounding says; then
// the one with more bits is used for both.
VocabularyTables choose_tables(const Parts::Vocabulary& stored, bool by_rounding,
                               const std::function<void(uint64_t)>& progress);

}  // namespace weft
