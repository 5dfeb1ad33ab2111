#include "ops/support.h"

#include "route.spv.h"

namespace weft::ops {

void route(Recorder& recorder, const Experts& experts, const View& state, const View& logits, const View& chosen,
           uint32_t tokens) {
  const uint32_t stride = stride_of(experts.count);
  require(experts.used > 0 && experts.used <= experts.count, "route",
          "a token uses no experts, or more than there are");
  require_bytes(logits, uint64_t{tokens} * stride * 4, "route", "logits");
  require_bytes(chosen, uint64_t{tokens} * experts.used * sizeof(abi::RoutedExpert), "route", "chosen");
  recorder.dispatch({shaders::route}, {state, logits, chosen},
                    abi::RoutePush{experts.count, experts.used, stride, tokens}, {ceil_div(tokens, 64)});
}

}  // namespace weft::ops
