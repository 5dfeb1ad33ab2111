// Matrices of 8-bit floats, E4M3 (Micikevicius et al. 2022, arXiv 2209.05433), with a scale for each block of rows and
// columns. Not for other modules.
#pragma once

#include <optional>

#include "format/quantised/folder.h"

namespace weft {

// Shape of the blocks that have one scale; those at the ends may be smaller.
struct ScaleBlock {
  uint64_t rows, columns;
  bool operator==(const ScaleBlock&) const = default;
};

// Puts a matrix of E4M3 in its place. scales: a tensor's name; it has a number for each block.
[[gnu::cold]] void put_fp8(QuantisedFolder& folder, const TensorView& weights, const std::string& scales,
                           const ScaleBlock& block);

// The block of the scales by their shape: the whole matrix, a row, or else `block`.
ScaleBlock block_of_shape(QuantisedFolder& folder, const TensorView& weights, const std::string& scales,
                          const std::optional<ScaleBlock>& block);

// Two numbers above 0 of a key.
ScaleBlock block_of(const JsonObject& config, const std::string& key);

}  // namespace weft
