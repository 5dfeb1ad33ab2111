#include "ops/filter.h"

#include <algorithm>

#include "ops/support.h"
#include "shaders/narrowed.h"

#include "filter.spv.h"
#include "narrow.spv.h"

namespace weft::ops {

uint64_t score_bytes(uint32_t rows) {
  const uint32_t words = std::max(rows, ceil_div(rows, PART_ROWS) * PART_WORDS);
  return uint64_t{stride_of(rows)} * 4 + sizeof(abi::Narrowed) + uint64_t{words} * 4;
}

View filter_scratch(const View& scores, uint32_t rows) {
  const uint64_t first = uint64_t{stride_of(rows)} * 4;
  return scores.part(first, score_bytes(rows) - first);
}

void filter(Recorder& recorder, const View& state, const View& params, const View& scores, const Selectable& from) {
  require_bytes(scores, score_bytes(from.rows), "filter", "scores");
  if (from.rows > 1u << 19)  // what its integer sums hold
    throw Error(Code::unsupported,
                "a vocabulary of " + std::to_string(from.rows) + " tokens, at most 524288 can be sampled", "filter");
  const Plan& plan = recorder.device().plan();
  const bool listed = from.lists != nullptr;
  const abi::SamplePush push = {from.rows};
  const Groups groups = {ceil_div(from.rows, FILTER_ROWS)};
  const View own = scores.part(0, uint64_t{from.rows} * 4), scratch = filter_scratch(scores, from.rows);
  recorder.dispatch(shaders::narrow, shaders::Narrow::Constants{.threads = plan.reduce_threads, .listed = listed},
                    shaders::Narrow::Bindings{.state = state, .params = params, .scores = own, .narrowed = scratch},
                    push, groups);
  recorder.dispatch(plan.subgroup ? shaders::filter_subgroup : shaders::filter,
                    shaders::Filter::Constants{.threads = plan.reduce_threads, .listed = listed},
                    shaders::Filter::Bindings{.state = state, .params = params, .scores = own, .narrowed = scratch},
                    push, groups);
}

}  // namespace weft::ops
