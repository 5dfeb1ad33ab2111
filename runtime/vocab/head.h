// The head settings of a session: which rows of the vocabulary table a token may come from, and how they are projected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/matrix.h"
#include "tokenizer/tokenizer.h"

namespace weft {

struct Head {
  enum class Mode {
    full,       // every row, every plane
    certified,  // what can matter, proven (vocab/certified.h)
    fast        // the best estimates, unproven
  };
  Mode mode = Mode::full;
  uint32_t fast_rows = 64;  // of fast: 1 .. kMostFastRows
  static constexpr uint32_t kMostFastRows = MAX_LEADERS / 2;
  // The only tokens that can be chosen, ascending; none: all can.
  std::optional<std::vector<uint32_t>> keep;
  bool keep_prompt = true;    // and those of the context
  std::string name = "full";  // as it was set
};

// "full", "certified", "fast", "fast:N", "keep:LIST" or "MODE+keep:LIST" (LIST: vocab/keep.h). Throws
// Error(invalid_argument) naming what is wrong and what there is, and what make_keep_list throws.
Head parse_head(std::string_view text, const Tokenizer& tokenizer);

// What computing one token's logits read, in rows.
struct HeadCounts {
  uint32_t mode = HEAD_ALL;
  uint64_t positions = 0;  // rows that could be chosen
  uint64_t refined = 0, rest = 0, exact = 0;
  double bytes(const Matrix& table) const;
};

}  // namespace weft
