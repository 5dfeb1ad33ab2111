// Rows of the vocabulary tables on other devices than the model's: how many each has, and where they lie.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "vocab/table.h"

namespace weft {

// The devices that share the rows, and in what proportion. The first one is the model's own.
struct TableSplit {
  std::vector<std::shared_ptr<Device>> others;  // all but the first, at least one
  std::vector<double> shares;                   // of all, above 0, in any unit: bytes a second for the least time

  // The first row of each device's part, then the number of rows: whole tiles except for the last part, at least one
  // each. Throws Error(invalid_argument) for more devices than tiles.
  std::vector<uint32_t> bounds(uint32_t rows) const;
};

// The part of one device but the first.
struct TableShard {
  std::shared_ptr<Device> device;
  uint32_t first_row;
  std::unique_ptr<Table> embedding, separate_output;  // as Weights has them

  const Table& output() const { return separate_output ? *separate_output : *embedding; }
  uint32_t rows() const { return embedding->rows(); }
  uint64_t bytes() const { return embedding->bytes() + (separate_output ? separate_output->bytes() : 0); }
};

}  // namespace weft
