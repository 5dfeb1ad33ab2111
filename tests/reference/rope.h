// Rotary position embedding (Su et al. 2021, "RoFormer").
#pragma once

#include "reference/rows.h"

namespace weft::reference {

// Which dimensions of a head turn together: (i, i + d/2) as Hugging Face, (2i, 2i + 1) as GGUF llama and the paper.
enum class Pairs { halves, adjacent };

// The angle of a pair at a position: position * base^(-2 pair / rotary_dim).
double rope_angle(uint32_t position, uint32_t pair, uint32_t rotary_dim, double base);

// Turns one head (head_dim values) in place; dimensions from rotary_dim on stay as they are.
void rope(std::span<double> head, uint32_t position, uint32_t rotary_dim, double base, Pairs pairs);

// Turns the whole blocks of 32 of one head in place, as caches of q4 keep keys: signs (bit i of `signs`: dimension i of
// a block changes its sign), then a Hadamard matrix.
void rotate_blocks(std::span<double> head, uint32_t signs);

}  // namespace weft::reference
