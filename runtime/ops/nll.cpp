#include "ops/support.h"

#include "nll.spv.h"
#include "nll_subgroup.spv.h"

namespace weft::ops {

void nll(Recorder& recorder, const View& state, const View& history, const View& logits, const View& out, uint32_t rows,
         uint32_t first, uint32_t tokens, const View* choice, float soft_cap) {
  require_bytes(logits, uint64_t{tokens} * stride_of(rows) * 4, "nll", "logits");
  require(out.bytes >= history.bytes, "nll", "the output is shorter than the context");
  const Plan& plan = recorder.device().plan();
  const Kernel& kernel =
      recorder.device().kernel({"nll",
                                plan.subgroup ? std::span<const uint32_t>(nll_subgroup_spv) : nll_spv,
                                5,
                                0b1000,
                                sizeof(abi::NllPush),
                                {plan.reduce_threads, choice ? 1u : 0u, soft_cap > 0 ? 1u : 0u}});
  recorder.dispatch(kernel, {state, history, logits, out, choice ? *choice : logits},
                    abi::NllPush{rows, stride_of(rows), first, soft_cap}, {tokens});
}

}  // namespace weft::ops
