// Estimates that the session's head makes of every row, and bounds by which it chooses the rows that it computes.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "session/session.h"

namespace weft {

HeadEstimates Session::head_estimates() {
  require(!ids_.empty(), "head_estimates", "the session has no prompt");
  model_.weights.need_all_rows("head_estimates");
  OnDevice& d = on_device();
  const Tail tail = begin(true);
  if (!tail.partial || !tail.steps.estimates || tail.steps.listed || matcher_)
    throw Error(Code::unsupported, "the head \"" + d.head.head().name + "\" estimates no logits here", "head",
                "set certified, sure or fast, without a keep-list, a grammar or log-probabilities");
  abi::HeadState& head = d.step.state.head();
  abi::HeadState fresh = {};  // it reads the least at first, whatever it has learnt
  fresh.positions = head.positions;
  head = fresh;
  compute_logits(tail);
  if (head.mode == HEAD_ALL)
    throw Error(Code::unsupported, "the sampling needs every row", "head", "set top_k beside typical_p");
  HeadEstimates result;
  const uint32_t vocab = model_.config.vocab;
  const auto list = [&](uint32_t first) {
    return download_as<float>(model_.device, View(tail.partial->lists).part(uint64_t{first} * 4, uint64_t{vocab} * 4));
  };
  result.bounds = list(LIST_BOUNDS(vocab));
  result.estimates = list(LIST_ESTIMATES(vocab));
  for (float& bound : result.bounds)
    if (bound <= BOUND_OF_LISTED) bound = std::numeric_limits<float>::infinity();
  const abi::SampleParams& params = *d.step.params.as<abi::SampleParams>();
  const float spread = head.mode == HEAD_LEADING ? params.leading_spread : params.rest_spread;
  const uint32_t rest = model_.weights.output_table().matrix().basis->rest();
  result.deviations = spread * std::sqrt(static_cast<float>(rest * BLOCK));
  begin(true);
  compute_logits({});
  result.logits = download_as<float>(model_.device, d.activations.logits.part(0, uint64_t{vocab} * 4));
  return result;
}

}  // namespace weft
