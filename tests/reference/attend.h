// Grouped-query attention (Vaswani et al. 2017; Ainslie et al. 2023, "GQA").
#pragma once

#include "reference/rows.h"

namespace weft::reference {

struct Attention {
  std::vector<double> y;          // (heads * head_dim): softmax(q K^T * scale) V of each head
  std::vector<double> magnitude;  // the same over |V|: what rounding errors are measured by
  double score_magnitude = 0;     // the largest sum of |q k| * scale
};

// One token's attention. q (heads * head_dim), keys and values (positions, kv_heads * head_dim): the positions it sees.
// own: its own position; below 0: the last of these. window: how near they must be, at least 1 for its own; 0: any.
// soft_cap: scores become soft_cap * tanh(score / soft_cap) (Gemma Team 2024). Head h reads
// key/value head h / (heads / kv_heads). alibi: then a score falls by the head's slope for each position between.
// biases: (heads, 2 * reach + 1) added to the scores by key's position less `own`, clamped to -reach .. reach (Raffel
// et al. 2020); none: empty. sinks (heads): one more score of each head, without a value; none: empty.
Attention attend(std::span<const double> q, const Rows& keys, const Rows& values, uint32_t heads, uint32_t kv_heads,
                 uint32_t positions, double scale, uint32_t window = 0, double soft_cap = 0, bool alibi = false,
                 std::span<const float> biases = {}, int own = -1, std::span<const float> sinks = {});
// Press et al. 2022, "Train short, test long", as their code has the slopes: a geometric sequence from 2^(-8 / n) on
// for n heads, n a power of two; for other n, those of the next lower power of two, then every other one of twice as
// many.
std::vector<double> alibi_slopes(uint32_t heads);

}  // namespace weft::reference
