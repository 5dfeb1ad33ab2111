#include "reference/sample.h"

#include <cmath>

namespace weft::reference {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * counter[0], second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key = {key[0] + 0x9E3779B9, key[1] + 0xBB67AE85};
  }
  return counter;
}

double gumbel(uint32_t word) { return -std::log(-std::log1p(-(word + 0.5) * 0x1p-32)); }

double noise(uint64_t seed, uint32_t end, uint32_t id) {
  return gumbel(philox({id / 4, end, 0, 0}, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[id % 4]);
}

uint32_t sample_greedy(const std::vector<float>& scores) {
  uint32_t best = kNobody;
  for (uint32_t id = 0; id < scores.size(); ++id)
    if (std::isfinite(scores[id]) && (best == kNobody || scores[id] > scores[best])) best = id;
  return best;
}

Sample sample_seeded(const std::vector<float>& scores, const std::vector<bool>& allowed, uint64_t seed, uint32_t end) {
  Sample sample;
  double best = -INFINITY, second = -INFINITY;
  for (uint32_t id = 0; id < scores.size(); ++id) {
    if (!allowed[id]) continue;
    const double score = scores[id] + noise(seed, end, id);
    if (score > best) {
      second = best, sample.runner_up = sample.id;
      best = score, sample.id = id;
    } else if (score > second) {
      second = score, sample.runner_up = id;
    }
  }
  sample.lead = best - second;
  return sample;
}

}  // namespace weft::reference
