#include "ops/support.h"

#include "route.spv.h"

namespace weft::ops {

void route(Recorder& recorder, const Experts& experts, const View& state, const View& logits, const View& biases,
           const View& chosen, uint32_t tokens) {
  const uint32_t stride = stride_of(experts.count);
  require(experts.used > 0 && experts.used <= experts.count && experts.count <= kMostExperts, "route",
          "a token uses no experts, or more than there are");
  require_bytes(logits, uint64_t{tokens} * stride * 4, "route", "logits");
  require_bytes(chosen, uint64_t{tokens} * experts.used * sizeof(abi::RoutedExpert), "route", "chosen");
  if (biases.buffer) require_bytes(biases, uint64_t{experts.count} * 4, "route", "biases");
  const Plan& plan = recorder.device().plan();
  constexpr uint32_t kLanes = 64;  // experts are few
  recorder.dispatch(
      plan.subgroup ? shaders::route_subgroup : shaders::route,
      shaders::Route::Constants{.threads = kLanes, .sigmoid = experts.sigmoid, .biased = biases.buffer != nullptr},
      shaders::Route::Bindings{.state = state, .logits = logits, .chosen = chosen, .biases = biases},
      abi::RoutePush{experts.count, experts.used, stride, experts.normalised, experts.scale}, {tokens});
}

}  // namespace weft::ops
