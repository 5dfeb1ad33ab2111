// Soft tokens: tokens of a context that have a row of floats of their own in place of one of the vocabulary table
// (Lester et al. 2021, "The power of scale for parameter-efficient prompt tuning").
#pragma once

#include <span>
#include <vector>

#include "shaders/abi.h"

namespace weft {

inline bool is_soft(uint32_t id) { return id >= SOFT_ID; }

// Ids or rows of a prompt: one of both is empty.
struct PromptPart {
  std::span<const uint32_t> ids;
  std::span<const float> rows;  // (soft tokens, width)
};

// The tokens of a context. The n-th soft one, from 0, has the id SOFT_ID + n, and row n.
struct SoftContext {
  std::vector<uint32_t> ids;
  std::vector<float> rows;  // (soft tokens, width)
};

// Throws Error(invalid_argument) for an id outside the vocabulary and for rows that are not finite or not whole.
SoftContext join_parts(std::span<const PromptPart> parts, uint32_t vocab, uint32_t width);
// True if the soft ids number `rows` rows in order, as in a context with that many.
bool are_numbered(std::span<const uint32_t> ids, size_t rows);
bool are_finite(std::span<const float> rows);
// Tokens at the beginning of both contexts that are the same: of soft ones, the bits of their rows.
size_t common_prefix(std::span<const uint32_t> ids, std::span<const float> rows, std::span<const uint32_t> other_ids,
                     std::span<const float> other_rows, uint32_t width);

}  // namespace weft
