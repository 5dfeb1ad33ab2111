// The vocabulary head of a session: which rows of the table its tokens may come from, and how they are projected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/matrix.h"
#include "tokenizer/tokenizer.h"

namespace weft {

struct VocabHead {
  enum class Mode {
    full,       // every row, every plane
    certified,  // only the rows that can matter, proven (vocab/certified.h)
    fast        // the best estimates, unproven
  };
  Mode mode = Mode::full;
  uint32_t fast_rows = 64;  // of fast: 1 .. kMostFastRows
  static constexpr uint32_t kMostFastRows = MAX_LEADERS / 2;
  // The only tokens that can be sampled, ascending; none: all can.
  std::optional<std::vector<uint32_t>> keep;
  bool keep_prompt = true;    // keep the tokens of the context too
  std::string name = "full";  // as it was set
};

// "full", "certified", "fast", "fast:N", "keep:LIST" or "MODE+keep:LIST" (LIST: vocab/keep.h). Throws
// Error(invalid_argument) naming what is wrong and what there is, and what make_keep_list throws.
VocabHead parse_vocab_head(std::string_view text, const Tokenizer& tokenizer);

// The rows that were read to compute the logits of one token.
struct RowsRead {
  uint32_t mode = HEAD_ALL;
  uint64_t positions = 0;  // rows that could be sampled
  uint64_t refined = 0, rest = 0, exact = 0;
  double bytes(const Matrix& table) const;
};

}  // namespace weft
