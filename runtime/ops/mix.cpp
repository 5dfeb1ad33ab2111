#include "ops/support.h"

#include "mix.spv.h"

namespace weft::ops {

void mix(Recorder& recorder, const View& logits, const View& bounds, const View& sums, const View& priors,
         const View& mixed, uint32_t rows, uint32_t softmaxes, FirstPrior first) {
  const uint32_t own_priors = softmaxes - (first == FirstPrior::sum ? 1 : 0);
  require_bytes(logits, uint64_t{softmaxes} * stride_of(rows) * 4, "mix", "logits");
  require_bytes(bounds, uint64_t{softmaxes} * 8, "mix", "bounds");
  require_bytes(sums, uint64_t{softmaxes} * 4, "mix", "sums");
  require_bytes(priors, uint64_t{own_priors} * 4, "mix", "priors");
  require_bytes(mixed, uint64_t{rows} * 4, "mix", "mixed");
  recorder.dispatch({shaders::mix, {first == FirstPrior::sum}}, {logits, bounds, sums, priors, mixed},
                    abi::MixPush{rows, stride_of(rows), softmaxes}, {ceil_div(rows, 64)});
}

}  // namespace weft::ops
