#include "ops/support.h"

#include "mix.spv.h"

namespace weft::ops {

void mix(Recorder& recorder, const MixViews& views, uint32_t rows, uint32_t softmaxes, FirstPrior first,
         Unread unread) {
  const uint32_t own_priors = softmaxes - (first == FirstPrior::sum ? 1 : 0);
  require_bytes(views.logits, uint64_t{softmaxes} * stride_of(rows) * 4, "mix", "logits");
  require_bytes(views.bounds, uint64_t{softmaxes} * 8, "mix", "bounds");
  require_bytes(views.sums, uint64_t{softmaxes} * 4, "mix", "sums");
  require_bytes(views.priors, uint64_t{own_priors} * 4, "mix", "priors");
  require_bytes(views.mixed, uint64_t{rows} * 4, "mix", "mixed");
  if (unread != Unread::none) require_bytes(views.clusters, sizeof(abi::ClusterState), "mix", "clusters");
  recorder.dispatch({shaders::mix, {first == FirstPrior::sum, static_cast<uint32_t>(unread)}},
                    {views.logits, views.bounds, views.sums, views.priors, views.mixed,
                     unread == Unread::none ? views.bounds : views.clusters},
                    abi::MixPush{rows, stride_of(rows), softmaxes}, {ceil_div(rows, 64)});
}

}  // namespace weft::ops
