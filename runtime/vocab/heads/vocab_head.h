// The vocabulary head of a session: which rows of the table its tokens may come from, and how they are projected.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/matrix.h"

namespace weft {

struct VocabHead {
  enum class Mode {
    full,       // every row, every bit
    certified,  // only the rows that can matter, proven (vocab/heads/pruned.h)
    sure,       // the same, except with a small probability over the table's rotation
    fast        // estimates trusted to some standard deviations, unproven
  };
  Mode mode = Mode::full;
  bool automatic = false;     // or one that reads more, whichever takes the least time
  double probability = 1e-9;  // of sure: that a token is not full's, at most; above 0, below 1
  double deviations = 7;      // of fast, from the leading columns: above 0, at most 40
  // The only tokens that can be sampled, ascending; none: all can.
  std::optional<std::vector<uint32_t>> keep;
  bool keep_prompt = true;    // keep the tokens of the context too
  std::string name = "full";  // as it was set
};

// The rows that were read to compute the logits of one token.
struct RowsRead {
  uint32_t mode = HEAD_ALL;
  uint64_t positions = 0;                        // rows that could be sampled
  std::array<uint64_t, ESTIMATES> refined = {};  // by the stage that refine read of them
  uint64_t exact = 0;
  bool shared = false;  // all tokens of a pass are projected together
  double bytes(const Matrix& table) const;
};

}  // namespace weft
