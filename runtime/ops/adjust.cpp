#include <algorithm>

#include "ops/support.h"

#include "adjust.spv.h"

namespace weft::ops {

void adjust(Recorder& recorder, const View& state, const View& params, const View& marks, const View& logits,
            const View& scores, const Chosen& from) {
  require_bytes(logits, uint64_t{from.rows} * 4, "adjust", "logits");
  require_bytes(scores, uint64_t{from.rows} * 4, "adjust", "scores");
  require_bytes(marks, uint64_t{MARK_WORDS(from.rows)} * 4, "adjust", "marks");
  const bool listed = from.lists != nullptr;
  // A list is usually short: few workgroups, and each goes on for as long as there are rows.
  const uint32_t groups = ceil_div(from.rows, 64);
  recorder.dispatch({shaders::adjust, {listed}}, {params, marks, logits, scores, state, listed ? *from.lists : logits},
                    abi::AdjustPush{from.rows}, {listed ? std::min(groups, 16u) : groups});
}

}  // namespace weft::ops
