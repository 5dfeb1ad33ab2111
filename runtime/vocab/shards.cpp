#include "vocab/shards.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace weft {

std::vector<uint32_t> TableSplit::bounds(uint32_t rows) const {
  const size_t count = shares.size();
  const uint64_t tiles = (uint64_t{rows} + TILE_ROWS - 1) / TILE_ROWS;
  if (tiles < count)
    throw Error(Code::invalid_argument,
                "the vocabulary table has " + std::to_string(rows) + " rows, which " + std::to_string(count) +
                    " devices cannot share",
                "device", "each takes at least " + std::to_string(TILE_ROWS) + " rows: name fewer devices");
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<uint32_t> bounds = {0};
  double before = 0;
  uint64_t end = 0;
  for (size_t i = 0; i + 1 < count; ++i) {
    before += shares[i];
    const auto wanted = static_cast<uint64_t>(std::llround(before / all * static_cast<double>(tiles)));
    end = std::clamp<uint64_t>(wanted, end + 1, tiles - (count - 1 - i));  // one tile for each that follows
    bounds.push_back(static_cast<uint32_t>(end * TILE_ROWS));
  }
  bounds.push_back(rows);
  return bounds;
}

}  // namespace weft
