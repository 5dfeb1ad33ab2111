// Which tokens may be sampled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::reference {

struct Filters {
  uint32_t top_k = 0;  // the k best scores and what equals the k-th; 0: all (Fan et al. 2018)
  double top_p = 1;    // of those, the fewest best that hold at least this share of their softmax, and what equals the
                       // last of them; 1: all (Holtzman et al. 2020)
  double min_p = 0;    // of those, the ones at least this likely compared with the best; 0: all (Nguyen et al. 2024)
  double typical_p = 1;  // of those, the fewest whose -ln p is nearest to the entropy and that hold this share of their
                         // softmax, and what is as near as the last of them; 1: all (Meister et al. 2022)
};

struct Allowed {
  std::vector<bool> ids;
  // How near the choice was: the least relative distance of a cumulative share from top_p, or of a score from the min-p
  // line, or of the typical ones' edge to the next score. A kernel in fp32 can only be asked to agree where this is
  // well above its rounding.
  double margin = 1;
};

// Scores that are not finite are never allowed.
Allowed filter(const std::vector<float>& scores, const Filters& filters);

}  // namespace weft::reference
