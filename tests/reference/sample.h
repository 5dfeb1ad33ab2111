// Choosing a token: the greatest score, or a draw from the softmax of the scores.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::reference {

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// -ln(-ln(1 - v)): a draw from the standard Gumbel distribution, v in the middle of one of 2^32 steps of (0, 1).
double gumbel(uint32_t word);

// Gumbel noise of a token id where the context is `end` tokens long: word id % 4 of the counter (id / 4, end, 0, 0).
double noise(uint64_t seed, uint32_t end, uint32_t id);

inline constexpr uint32_t kNobody = 0xffffffff;

// The lowest id among the greatest scores; scores that are not finite do not count. kNobody if none is left.
uint32_t sample_greedy(const std::vector<float>& scores);

struct Sample {
  uint32_t id = kNobody;
  uint32_t runner_up = kNobody;
  double lead = 0;  // of the best over the second
};
// The greatest score + noise among the allowed ones, which is a draw from their softmax (Gumbel 1954; Maddison et al.
// 2014, "A* sampling").
Sample sample_seeded(const std::vector<float>& scores, const std::vector<bool>& allowed, uint64_t seed, uint32_t end);

}  // namespace weft::reference
