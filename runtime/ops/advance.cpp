#include "ops/support.h"

#include "advance.spv.h"

namespace weft::ops {

void advance(Recorder& recorder, const StepViews& step, uint32_t candidates, uint32_t tokens) {
  require_bytes(step.candidates, uint64_t{candidates} * sizeof(abi::Candidate), "advance", "candidates");
  require_bytes(step.ring, RING * sizeof(abi::RingEntry), "advance", "ring");
  recorder.dispatch({shaders::advance},
                    {step.state, step.params, step.candidates, step.history, step.token_flags, step.ring},
                    abi::AdvancePush{candidates, tokens, step.rows}, {1});
}

}  // namespace weft::ops
