// Causal grouped-query attention (Vaswani et al. 2017; Ainslie et al. 2023, "GQA").
#pragma once

#include "reference/rows.h"

namespace weft::reference {

struct Attention {
  std::vector<double> y;          // (heads * head_dim): softmax(q K^T * scale) V of each head
  std::vector<double> magnitude;  // the same over |V|: what rounding errors are measured by
  double score_magnitude = 0;     // the largest sum of |q k| * scale
};

// One token's attention. q (heads * head_dim), keys and values (positions, kv_heads * head_dim): the positions it sees,
// its own last; with a window,
// only the last so many. soft_cap: scores become soft_cap * tanh(score / soft_cap) (Gemma Team 2024). Head h reads
// key/value head h / (heads / kv_heads).
Attention attend(std::span<const double> q, const Rows& keys, const Rows& values, uint32_t heads, uint32_t kv_heads,
                 uint32_t positions, double scale, uint32_t window = 0, double soft_cap = 0);

}  // namespace weft::reference
