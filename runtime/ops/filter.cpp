#include "ops/support.h"

#include "filter.spv.h"

namespace weft::ops {

void filter(Recorder& recorder, const View& state, const View& params, const View& scores, const Selectable& from) {
  require_bytes(scores, uint64_t{from.rows} * 4, "filter", "scores");
  if (from.rows > 1u << 19)  // what its integer sums hold
    throw Error(Code::unsupported,
                "a vocabulary of " + std::to_string(from.rows) + " tokens, at most 524288 can be sampled", "filter");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(
      {plan.subgroup ? shaders::filter_subgroup : shaders::filter, {plan.reduce_threads, from.lists != nullptr}},
      {state, params, scores}, abi::SamplePush{from.rows}, {1});
}

}  // namespace weft::ops
