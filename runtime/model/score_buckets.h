// T5's relative positions (Raffel et al. 2020, section 2.1): near distances have a bias of the scores each, farther
// ones share it, by the distance's logarithm, and from the farthest on all have the last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

struct ScoreBuckets {
  uint32_t count = 0;     // of the learned biases of a head; even, at least 4
  uint32_t farthest = 0;  // more than count
};

// The bucket of a key's position less its query's. both_ways: half of the buckets are for keys behind the query; else
// those all fall to bucket 0.
uint32_t bucket_of(const ScoreBuckets& buckets, int distance, bool both_ways);

// The biases by distance, (heads, 2 * farthest + 1), of a file's table (count, heads).
std::vector<float> biases_by_distance(const ScoreBuckets& buckets, std::span<const float> table, uint32_t heads,
                                      bool both_ways);

}  // namespace weft
