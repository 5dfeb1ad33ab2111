#include "model/score_buckets.h"

#include <algorithm>
#include <cmath>

namespace weft {

uint32_t bucket_of(const ScoreBuckets& buckets, int distance, bool both_ways) {
  const uint32_t count = both_ways ? buckets.count / 2 : buckets.count, exact = count / 2;
  const uint32_t first = both_ways && distance > 0 ? count : 0;
  const uint32_t far =
      both_ways ? static_cast<uint32_t>(std::abs(distance)) : static_cast<uint32_t>(std::max(-distance, 0));
  if (far < exact) return first + far;
  // In fp32, as Transformers has it: where a bucket begins may hang on the rounding.
  const float share = std::log(static_cast<float>(far) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(static_cast<double>(buckets.farthest) / exact));
  return first + std::min(exact + static_cast<uint32_t>(share * static_cast<float>(count - exact)), count - 1);
}

std::vector<float> biases_by_distance(const ScoreBuckets& buckets, std::span<const float> table, uint32_t heads,
                                      bool both_ways) {
  const int reach = static_cast<int>(buckets.farthest);
  std::vector<float> biases;
  biases.reserve(heads * (2 * size_t{buckets.farthest} + 1));
  for (uint32_t head = 0; head < heads; ++head)
    for (int distance = -reach; distance <= reach; ++distance)
      biases.push_back(table[bucket_of(buckets, distance, both_ways) * size_t{heads} + head]);
  return biases;
}

}  // namespace weft
