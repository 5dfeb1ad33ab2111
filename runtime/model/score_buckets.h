// T5's relative positions (Raffel et al. 2020, section 2.1): each near distance has its own bias of the scores, farther
// distances share one by their logarithm, and all from `farthest` on share the last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

struct ScoreBuckets {
  uint32_t count = 0;     // of learned biases of an attention head; even, at least 4
  uint32_t farthest = 0;  // more than count
};

// The bucket of a key's position less its query's. both_ways: half of the buckets are for keys after the query; else
// those keys all share bucket 0.
uint32_t bucket_of(const ScoreBuckets& buckets, int distance, bool both_ways);

// The biases by distance, (heads, 2 * farthest + 1), of a file's table (count, heads).
std::vector<float> biases_by_distance(const ScoreBuckets& buckets, std::span<const float> table, uint32_t heads,
                                      bool both_ways);

}  // namespace weft
