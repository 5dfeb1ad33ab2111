#include "support/op_sampler.h"

#include <algorithm>

#include "ops/filter.h"
#include "reference/sample.h"

namespace weft::test {

abi::SampleParams no_sampling() {
  abi::SampleParams params = {};
  params.top_p = 1;
  params.log_min_p = -1e30f;
  params.repeat_penalty = 1;
  params.typical_p = 1;
  return params;
}

Sampler::Sampler(const Tuning& tuning, uint32_t rows, uint32_t context, const Stages& stages)
    : rows_(rows), context_(context), device_(open_device(tuning)), pool_(device_), fence_(device_) {
  const auto make = [&](const char* name, uint64_t bytes) { return Buffer(device_, name, bytes, Memory::shared); };
  state_ = make("state", sizeof(abi::StepState));
  params_ = make("params", sizeof(abi::SampleParams));
  logits_ = make("logits", uint64_t{rows} * 4);
  if (stages.penalize) scores_ = share(device_, "scores", std::vector<uint8_t>(ops::score_bytes(rows)));
  history_ = make("history", uint64_t{context} * 4);
  token_flags_ = make("token flags", token_flags().size() * 4);
  ring_ = make("ring", RING * sizeof(abi::RingEntry));
  candidates_ = make("candidates", candidates().size() * sizeof(abi::Candidate));
  params() = no_sampling();
  restart(0, 1);

  const View scores = stages.penalize ? View(scores_) : View(logits_);
  Recorder recorder(pool_, "sample");
  for (uint32_t i = 0; i < stages.repeat; ++i) {
    if (stages.penalize) ops::penalize(recorder, state_, params_, token_flags_, logits_, scores, {rows});
    if (stages.filter) ops::filter(recorder, state_, params_, scores, {rows});
    ops::sample(recorder, state_, params_, scores, candidates_, {rows});
    ops::advance(recorder, {state_, params_, candidates_, history_, token_flags_, ring_, rows},
                 ops::candidate_count(rows), 1);
  }
  EXPECT_EQ(kernels_of(recorder), std::string(stages.penalize ? "penalize, " : "") +
                                      (stages.filter ? "narrow, " + reduction("filter", device_->plan()) + ", " : "") +
                                      "sample, advance");
  commands_ = recorder.finish(true);
}

void Sampler::restart(uint32_t pos, uint32_t end) {
  state() = {pos, end, 0, context_, -3.4e38f, 3.4e38f, 0, 0, {}};
  std::ranges::fill(history(), kPoison);
  std::ranges::fill(token_flags(), 0u);
  std::ranges::fill(ring(), abi::RingEntry{kPoison, kPoison, {kPoison, kPoison, kPoison}, kPoison});
}

void Sampler::run() {
  device_->submit({&commands_}, fence_);
  fence_.wait();
}

uint32_t Sampler::draw(uint32_t end) {
  state() = {end - 1, end, 0, context_, -3.4e38f, 3.4e38f, 0, 0, {}};
  run();
  const abi::RingEntry entry = ring()[end % RING];
  if (entry.flags == FINISH_NOT_FINITE) return reference::kNobody;
  EXPECT_EQ(entry.id, history()[end]);
  return entry.id;
}

}  // namespace weft::test
