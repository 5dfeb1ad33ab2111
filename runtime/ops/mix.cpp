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
  recorder.dispatch(shaders::mix, shaders::Mix::Constants{.first_by_sum = first == FirstPrior::sum, .unread = unread},
                    shaders::Mix::Bindings{.logits = views.logits,
                                           .bounds = views.bounds,
                                           .sums = views.sums,
                                           .priors = views.priors,
                                           .mixed = views.mixed,
                                           .clusters = unread == Unread::none ? View{} : views.clusters},
                    abi::MixPush{rows, stride_of(rows), softmaxes}, {ceil_div(rows, 64)});
}

}  // namespace weft::ops
