// The projection that reads only what can matter. The table's first planes bound every logit from above; the rows with
// the greatest bounds are computed; every row whose bound reaches what those achieved is refined by the next plane; and
// what still reaches it is computed too. So what a token is chosen from holds every row that could be chosen, with the
// very logits the full projection gives, and the choice is the full projection's. The bound is derived in
// shaders/quantise.comp.
//
// How many rows go where is decided on the device (abi::HeadState) and drives indirect dispatches; the CPU waits for
// nothing. Where bounds fail to rule rows out, the device reads more planes at once or drops the estimates for a while.
#pragma once

#include "vocab/table.h"

namespace weft {

// What a session's partial head works in. The CPU writes `choice` while nothing is in flight.
struct HeadBuffers {
  HeadBuffers(const std::shared_ptr<Device>& device, const Table& table);
  uint64_t bytes() const { return factors.bytes() + lists.bytes() + choice.bytes(); }

  Buffer factors;  // what estimates take from the hidden state (abi.h, ESTIMATE_WORDS)
  Buffer lists;    // abi.h, LISTS
  Buffer choice;   // abi.h, CHOICE; mapped
};

// Which commands a partial head needs.
struct HeadShapes {
  bool estimates = false;  // bound rows before computing them: certified and fast
  bool listed = false;     // rows are chosen from choice's ids
  bool masked = false;     // and from those whose bit is set
  auto operator<=>(const HeadShapes&) const = default;
};

struct HeadViews {
  const View x;       // (width) the normed hidden state
  const View state;   // abi::StepState: head.positions says how many rows may be chosen
  const View params;  // abi::SampleParams: cut_rank and what follows say which rows matter
  const View marks;   // abi.h, MARKS
};

// Leaves the ids to choose from in buffers.lists (LIST_IDS), how many they are in state.head.exact_count, and their
// logits in `logits`, in the order of the list.
void project_partly(Recorder& recorder, const Table& table, const HeadShapes& shapes, const HeadBuffers& buffers,
                    const HeadViews& views, const View& logits);

}  // namespace weft
