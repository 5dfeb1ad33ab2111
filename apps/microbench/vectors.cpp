// Operations on a hidden state: norms, the activation, the addition of a bias to the logits.
#include "microbench/bench.h"
#include "microbench/shapes.h"

namespace weft::microbench {
namespace {

void norm(benchmark::State& state, uint32_t cols, uint32_t tokens) {
  const std::vector<float> x = inputs(tokens, cols), weight = numbers(cols);
  const Buffer in = upload(x), scale = upload(weight), step = make_state(0, tokens), out = floats(x.size());
  const Record record = [&](Recorder& r, size_t) { ops::norm(r, {cols, 1e-5f}, step, in, scale, out, tokens, false); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  Expected want;
  for (const uint32_t t : {0u, tokens - 1}) {
    const float* const row = &x[uint64_t{t} * stride_of(cols)];
    double squares = 0;
    for (uint32_t i = 0; i < cols; ++i) squares += double{row[i]} * row[i];
    want.emplace_back(uint64_t{t} * stride_of(cols) + cols - 1,
                      row[cols - 1] / std::sqrt(squares / cols + 1e-5) * weight[cols - 1]);
  }
  if (!verify(state, download_as<float>(bench().device, out), want, 1e-5)) return;
  time_on_device(state, record, 1, 2.0 * tokens * cols * 4, 0);
}

void activate(benchmark::State& state, ops::Activation activation, uint32_t cols, uint32_t tokens) {
  const std::vector<float> x = inputs(tokens, 2 * cols);
  const Buffer in = upload(x), step = make_state(0, tokens), out = floats(uint64_t{tokens} * stride_of(cols));
  const Record record = [&](Recorder& r, size_t) { ops::activate(r, activation, true, step, in, out, cols, tokens); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  Expected want;
  for (const uint32_t t : {0u, tokens - 1})
    for (const uint32_t i : {0u, cols - 1}) {
      const uint64_t row = uint64_t{t} * stride_of(2 * cols);
      const double gate = x[row + i], up = x[row + cols + i];
      const double bell = (1 + std::tanh(std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate))) / 2;
      const double share = activation == ops::Activation::silu ? 1 / (1 + std::exp(-gate)) : bell;
      want.emplace_back(uint64_t{t} * stride_of(cols) + i, gate * share * up);
    }
  if (!verify(state, download_as<float>(bench().device, out), want, 1e-5)) return;
  time_on_device(state, record, 1, 3.0 * tokens * cols * 4, 0);
}

void add_vectors(benchmark::State& state, uint32_t count) {
  const std::vector<float> x = numbers(count), y = inputs(1, count);
  const Buffer in = upload(x), sum = upload(y);
  const Record record = [&](Recorder& r, size_t) { ops::add(r, in, sum, count); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  const Expected want = {{0, double{x[0]} + y[0]}, {count - 1, double{x[count - 1]} + y[count - 1]}};
  if (!verify(state, download_as<float>(bench().device, sum), want, 1e-6)) return;
  time_on_device(state, record, 1, 3.0 * count * 4, 0);
}

}  // namespace

void register_vectors(const ModelShape& shape) {
  const std::string model = std::string("/") + shape.name;
  const uint32_t width = shape.width, ffn = shape.ffn, vocab = shape.vocab;
  const ops::Activation activation = shape.activation;
  for (const uint32_t tokens : {1u, 64u}) {
    const std::string suffix = "/tokens:" + std::to_string(tokens);
    add("norm" + model + suffix, [=](benchmark::State& state) { norm(state, width, tokens); });
    add("activate" + model + suffix, [=](benchmark::State& state) { activate(state, activation, ffn, tokens); });
  }
  add("add" + model + "/logits", [=](benchmark::State& state) { add_vectors(state, vocab); });
}

}  // namespace weft::microbench
