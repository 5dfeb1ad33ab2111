// The projection that reads only the rows that can matter. The leading columns and the first planes of the table bound
// every logit from above. The rows with the greatest estimates are computed exactly. Every row whose bound reaches the
// logits of those is refined by the next planes, and computed exactly if its last bound still reaches them. So every
// row that could be sampled is in the list, with the logits of the full projection, and the sampled token is the same.
// shaders/quantise.comp derives the bound, and says how far it is proven. For top-p, which asks for the mass of all
// rows, shaders/decide.comp tells whether the list is enough; if not, every row is computed.
//
// The device decides how many rows each step takes (abi::HeadState) and dispatches indirectly; the CPU waits for
// nothing. If the bounds rule out too few rows, the device reads more planes at once or does without estimates for a
// while.
#pragma once

#include "vocab/table.h"

namespace weft {

// The buffers of a session's partial head. The CPU writes allowed_rows while nothing is in flight.
struct PartialHeadBuffers {
  // part: the table has only some of the vocabulary's rows (vocab/shards.h).
  PartialHeadBuffers(const std::shared_ptr<Device>& device, const Table& table, bool part = false);
  uint64_t bytes() const { return factors.bytes() + lists.bytes() + allowed_rows.bytes() + token_flags.bytes(); }

  Buffer factors;       // the hidden state as estimates read it (abi.h, FACTOR_WORDS)
  Buffer lists;         // abi.h, LISTS
  Buffer allowed_rows;  // abi.h, ALLOWED_ROWS; mapped
  Buffer token_flags;   // of a part: abi.h, TOKEN_FLAGS, of the table's rows; mapped
};

// Which steps a partial head records.
struct PartialHeadSteps {
  bool estimates = false;  // bound rows before computing them: certified and fast
  bool listed = false;     // only rows that allowed_rows lists
  bool masked = false;     // only rows whose bit in allowed_rows is set
  bool nucleus = false;    // with estimates: top-p may need rows that the estimates rule out
  auto operator<=>(const PartialHeadSteps&) const = default;
};

struct PartialHeadViews {
  const View x;            // (width) the normed hidden state in the table's basis
  const View state;        // abi::StepState: head.positions says how many rows may be chosen
  const View params;       // abi::SampleParams: cut_rank and what follows say which rows matter
  const View token_flags;  // abi.h, TOKEN_FLAGS
};

// A share of the greatest possible value, which the product of two vectors of `dimensions` dimensions at random angles
// exceeds with at most this probability.
double sure_spread(double probability, uint32_t dimensions);

// Writes the ids to sample from to buffers.lists (LIST_IDS), their number to state.head.exact_count, and their logits
// to `logits`, in the order of the list.
void project_partly(Recorder& recorder, const Table& table, const PartialHeadSteps& steps,
                    const PartialHeadBuffers& buffers, const PartialHeadViews& views, const View& logits);

}  // namespace weft
