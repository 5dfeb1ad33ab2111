#include "ops/support.h"

#include "nll.spv.h"

namespace weft::ops {

void nll(Recorder& recorder, const View& state, const View& history, const View& logits, const View& out, uint32_t rows,
         uint32_t first, uint32_t tokens, const View* allowed_rows, float soft_cap) {
  require_bytes(logits, uint64_t{tokens} * stride_of(rows) * 4, "nll", "logits");
  require(out.bytes >= history.bytes, "nll", "the output is shorter than the context");
  const Plan& plan = recorder.device().plan();
  recorder.dispatch(plan.subgroup ? shaders::nll_subgroup : shaders::nll,
                    shaders::Nll::Constants{
                        .threads = plan.reduce_threads, .masked = allowed_rows != nullptr, .soft_cap = soft_cap > 0},
                    shaders::Nll::Bindings{
                        .state = state, .history = history, .logits = logits, .nll = out, .allowed_rows = allowed_rows},
                    abi::NllPush{rows, stride_of(rows), first, soft_cap}, {tokens});
}

}  // namespace weft::ops
