#include "ops/filter.h"
#include "ops/support.h"
#include "shaders/narrowed.h"

#include "logprobs.spv.h"

namespace weft::ops {

void logprobs(Recorder& recorder, const View& state, const View& params, const View& logits, const View& candidates,
              const View& scores, const View& out, const Selectable& from) {
  static_assert(PART_WORDS == 3 + 2 * MAX_LOGPROBS);
  const uint32_t count = candidate_count(from.rows);
  require_bytes(logits, uint64_t{from.rows} * 4, "logprobs", "logits");
  require_bytes(candidates, count * sizeof(abi::Candidate), "logprobs", "candidates");
  require_bytes(scores, score_bytes(from.rows), "logprobs", "scores");
  require_bytes(out, RING * sizeof(abi::TokenLogprobs), "logprobs", "out");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(plan.subgroup ? shaders::logprobs_subgroup : shaders::logprobs,
                    shaders::Logprobs::Constants{.threads = plan.reduce_threads, .listed = from.lists != nullptr},
                    shaders::Logprobs::Bindings{.state = state,
                                                .params = params,
                                                .logits = logits,
                                                .candidates = candidates,
                                                .lists = from.lists,
                                                .ring = out,
                                                .narrowed = filter_scratch(scores, from.rows)},
                    abi::LogprobsPush{from.rows, count}, {ceil_div(from.rows, PART_ROWS)});
}

}  // namespace weft::ops
