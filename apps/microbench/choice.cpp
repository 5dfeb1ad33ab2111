// Operations that turn logits into a token.
#include <algorithm>
#include <limits>

#include "microbench/bench.h"
#include "microbench/shapes.h"
#include "ops/filter.h"

namespace weft::microbench {
namespace {

constexpr uint32_t kTopK = 40;
constexpr float kInverseTemperature = 1.25f;

// The end of a pass over a vocabulary, with all that its operations touch.
struct Choice {
  explicit Choice(uint32_t vocab) : rows(vocab), values(numbers(vocab)), logits(upload(values)) {
    const auto make = [](const char* what, uint64_t bytes) {
      Buffer buffer(bench().device, what, bytes, Memory::shared);
      std::memset(buffer.data(), 0, bytes);
      return buffer;
    };
    step = make_state(0, 1);
    step.as<abi::StepState>()->threshold = -std::numeric_limits<float>::max();
    step.as<abi::StepState>()->ceiling = std::numeric_limits<float>::max();
    params = make("params", sizeof(abi::SampleParams));
    abi::SampleParams& p = *params.as<abi::SampleParams>();
    p.inverse_temperature = kInverseTemperature;
    p.top_k = kTopK;
    p.top_p = p.repeat_penalty = p.typical_p = 1;
    p.log_min_p = -1e30f;
    token_flags = make("token flags", uint64_t{TOKEN_FLAG_WORDS(vocab)} * 4);
    candidates = make("candidates", ops::candidate_count(vocab) * sizeof(abi::Candidate));
    scores = make("scores", ops::score_bytes(vocab));
    history = make("history", 4 * 4);
    ring = make("ring", RING * sizeof(abi::RingEntry));
  }
  uint32_t rows;
  std::vector<float> values;
  void penalize(Recorder& r) const { ops::penalize(r, step, params, token_flags, logits, scores, {rows}); }
  Buffer logits, scores, step, params, token_flags, candidates, history, ring;
};

void penalize(benchmark::State& state, uint32_t vocab) {
  const Choice c(vocab);
  const Record record = [&](Recorder& r, size_t) { c.penalize(r); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  Expected want;
  for (const uint32_t row : {0u, vocab / 3, vocab - 1})
    want.emplace_back(row, double{c.values[row]} * kInverseTemperature);
  if (!verify(state, download_as<float>(bench().device, c.scores), want, 1e-5)) return;
  time_on_device(state, record, 1, 8.0 * vocab, 0);
}

// With penalize, which leaves it the peak.
void filter(benchmark::State& state, uint32_t vocab) {
  const Choice c(vocab);
  const Record record = [&](Recorder& r, size_t) {
    c.penalize(r);
    ops::filter(r, c.step, c.params, c.scores, {vocab});
  };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  std::vector<float> sorted = c.values;
  std::sort(sorted.begin(), sorted.end(), std::greater<float>());
  const float got = c.step.as<abi::StepState>()->threshold / kInverseTemperature;
  if (got > sorted[kTopK - 1] || got <= sorted[kTopK]) return state.SkipWithError("wrong result: other than top-k");
  time_on_device(state, record, 1, 12.0 * vocab, 0);
}

void sample(benchmark::State& state, uint32_t vocab) {
  const Choice c(vocab);
  c.params.as<abi::SampleParams>()->inverse_temperature = 0;  // greedy
  const Record record = [&](Recorder& r, size_t) { ops::sample(r, c.step, c.params, c.logits, c.candidates, {vocab}); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  const std::span<const abi::Candidate> found(c.candidates.as<abi::Candidate>(), ops::candidate_count(vocab));
  const auto best = std::max_element(found.begin(), found.end(), [](auto& a, auto& b) { return a.score < b.score; });
  const auto want = std::max_element(c.values.begin(), c.values.end());
  if (best->id != static_cast<uint32_t>(want - c.values.begin()))
    return state.SkipWithError("wrong result: not the best");
  time_on_device(state, record, 1, 4.0 * vocab, 0);
}

// Stays where it is: the context has room for one token more.
void advance(benchmark::State& state, uint32_t vocab) {
  const Choice c(vocab);
  const uint32_t count = ops::candidate_count(vocab);
  for (uint32_t i = 0; i < count; ++i) c.candidates.as<abi::Candidate>()[i] = {number(i), i};
  const ops::StepViews views = {c.step, c.params, c.candidates, c.history, c.token_flags, c.ring, vocab};
  const Record record = [&](Recorder& r, size_t) { ops::advance(r, views, count, 1); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  uint32_t best = 0;
  for (uint32_t i = 0; i < count; ++i)
    if (number(i) > number(best)) best = i;
  if (c.ring.as<abi::RingEntry>()[1].id != best) return state.SkipWithError("wrong result: not the best candidate");
  time_on_device(state, record, 1, double(count) * sizeof(abi::Candidate), 0);
}

}  // namespace

void register_choice(const ModelShape& shape) {
  const std::string model = std::string("/") + shape.name;
  const uint32_t vocab = shape.vocab;
  add("penalize" + model, [=](benchmark::State& state) { penalize(state, vocab); });
  add("filter" + model, [=](benchmark::State& state) { filter(state, vocab); });
  add("sample" + model, [=](benchmark::State& state) { sample(state, vocab); });
  add("advance" + model, [=](benchmark::State& state) { advance(state, vocab); });
}

}  // namespace weft::microbench
