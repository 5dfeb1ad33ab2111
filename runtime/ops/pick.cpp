#include "ops/support.h"

#include "pick.spv.h"

namespace weft::ops {

uint32_t candidate_count(uint32_t rows) { return ceil_div(rows, PICK_ROWS); }

void pick(Recorder& recorder, const View& state, const View& params, const View& scores, const View& candidates,
          const Chosen& from) {
  require_bytes(scores, uint64_t{from.rows} * 4, "pick", "scores");
  require_bytes(candidates, candidate_count(from.rows) * sizeof(abi::Candidate), "pick", "candidates");
  const bool listed = from.lists != nullptr;
  recorder.dispatch({shaders::pick, {listed}}, {state, params, scores, candidates, listed ? *from.lists : scores},
                    abi::PickPush{from.rows}, {candidate_count(from.rows)});
}

}  // namespace weft::ops
