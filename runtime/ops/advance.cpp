#include "ops/support.h"

#include "advance.spv.h"

namespace weft::ops {

namespace {

void record(Recorder& recorder, const StepViews& step, const abi::AdvancePush& push) {
  require_bytes(step.candidates, uint64_t{push.candidates} * sizeof(abi::Candidate), "advance", "candidates");
  require_bytes(step.ring, RING * sizeof(abi::RingEntry), "advance", "ring");
  recorder.dispatch(shaders::advance, shaders::Advance::Constants{.threads = recorder.device().plan().reduce_threads},
                    shaders::Advance::Bindings{.state = step.state,
                                               .params = step.params,
                                               .candidates = step.candidates,
                                               .history = step.history,
                                               .token_flags = step.token_flags,
                                               .ring = step.ring},
                    push, {1});
}

}  // namespace

void advance(Recorder& recorder, const StepViews& step, uint32_t candidates, uint32_t tokens) {
  record(recorder, step, {candidates, tokens, step.rows, 0});
}

void advance_draft(Recorder& recorder, const StepViews& step, uint32_t candidates) {
  record(recorder, step, {candidates, 0, step.rows, 1});
}

}  // namespace weft::ops
