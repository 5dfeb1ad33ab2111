// Soft tokens: tokens of a context that have a row of floats of their own in place of one of the vocabulary table
// (Lester et al. 2021, "The power of scale for parameter-efficient prompt tuning").
#pragma once

#include <array>
#include <span>
#include <vector>

#include "shaders/abi.h"

namespace weft {

inline bool is_soft(uint32_t id) { return id >= SOFT_ID; }

// Tokens of a picture: the rows of the grid, one after the other.
struct PictureGrid {
  uint32_t height = 0, width = 0;
  bool operator==(const PictureGrid&) const = default;
};

// Ids or rows of a prompt: one of both is empty.
struct PromptPart {
  std::span<const uint32_t> ids;
  std::span<const float> rows;            // (soft tokens, width)
  PictureGrid grid = {};                  // of a picture in a model with Config::grid_token; else without tokens
  std::span<const float> deepstack = {};  // of such a picture: (Config::deepstack, soft tokens, width)
};

// A picture with a grid, in a context.
struct PlacedPicture {
  size_t begin;
  PictureGrid grid;
  bool operator==(const PlacedPicture&) const = default;
};

// The tokens of a context. The n-th soft one, from 0, has the id SOFT_ID + n, and row n.
struct SoftContext {
  std::vector<uint32_t> ids;
  std::vector<float> rows;              // (soft tokens, 1 + deepstack, width): zeros for rows that are no picture's
  std::vector<PlacedPicture> pictures;  // with a grid
};

// Throws Error(invalid_argument) for an id outside the vocabulary and for rows that are not finite or not whole.
// deepstack: Config's.
SoftContext join_parts(std::span<const PromptPart> parts, uint32_t vocab, uint32_t width, uint32_t deepstack = 0);
// True if the soft ids number `rows` rows in order, as in a context with that many.
bool are_numbered(std::span<const uint32_t> ids, size_t rows);
bool are_finite(std::span<const float> rows);
// Tokens at the beginning of both contexts that are the same: of soft ones, the bits of their rows.
// row: floats of a soft token.
size_t common_prefix(std::span<const uint32_t> ids, std::span<const float> rows, std::span<const uint32_t> other_ids,
                     std::span<const float> other_rows, size_t row);
// `tokens`, or the begin of the first picture before them that only one of two contexts has there. Tokens of both have
// the same positions up to there.
size_t same_grids(std::span<const PlacedPicture> pictures, std::span<const PlacedPicture> others, size_t tokens);

}  // namespace weft
