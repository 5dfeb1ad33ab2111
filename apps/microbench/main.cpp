// weft-microbench: the shaders one by one over the shapes of real models. Each is verified against the CPU before it is
// timed; times are the device's timestamps where it has them, else the submission's less an empty one's; buffers rotate
// so that a run does not find its matrix in the cache. Takes Google Benchmark's options, and WEFT_DEVICE.
#include "microbench/bench.h"
#include "microbench/heads.h"

namespace {

using namespace weft;
using namespace weft::microbench;

void project(benchmark::State& state, Format format, uint32_t rows, uint32_t cols) {
  const Copies m(format, rows, cols, Layout::planes);
  const std::vector<float> x = inputs(1, cols);
  const Buffer in = upload(x), logits(bench().device, "logits", uint64_t{rows} * 4, Memory::device);
  const Record record = [&](Recorder& r, size_t copy) { ops::project(r, m.matrices[copy], in, logits, 1); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  std::vector<std::pair<size_t, double>> want;
  check_rows(m, x, 1, rows, want);
  if (!verify(state, download_as<float>(bench().device, logits), want, tolerance(format, cols))) return;
  time_on_device(state, record, m.matrices.size(), static_cast<double>(m.matrices[0].bytes()), double(rows) * cols);
}

void matmul(benchmark::State& state, Format format, uint32_t rows, uint32_t cols, uint32_t tokens) {
  const Copies m(format, rows, cols, Layout::values);
  const std::vector<float> x = inputs(tokens, cols);
  const Buffer in = upload(x), step = make_state(0, tokens);
  const Buffer out(bench().device, "out", uint64_t{tokens} * stride_of(rows) * 4, Memory::device);
  const Record record = [&](Recorder& r, size_t copy) {
    ops::matmul(r, m.matrices[copy], step, in, out, tokens, ops::Output::write);
  };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  std::vector<std::pair<size_t, double>> want;
  check_rows(m, x, tokens, stride_of(rows), want);
  if (!verify(state, download_as<float>(bench().device, out), want, tolerance(format, cols))) return;
  time_on_device(state, record, m.matrices.size(), static_cast<double>(m.matrices[0].bytes()),
                 double(rows) * cols * tokens);
}

void gather(benchmark::State& state, Format format, uint32_t rows, uint32_t cols, uint32_t tokens) {
  const Copies m(format, rows, cols, Layout::planes);
  const Buffer step = make_state(0, tokens),
               out(bench().device, "out", uint64_t{tokens} * stride_of(cols) * 4, Memory::device);
  const Buffer history(bench().device, "history", tokens * 4, Memory::shared);
  for (uint32_t t = 0; t < tokens; ++t) history.as<uint32_t>()[t] = (t * 7919 + 11) % rows;
  const Record record = [&](Recorder& r, size_t copy) { ops::gather(r, m.matrices[copy], step, history, out, tokens); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  std::vector<std::pair<size_t, double>> want;
  for (uint32_t t = 0; t < tokens; ++t)
    want.emplace_back(uint64_t{t} * stride_of(cols) + cols - 1,
                      m.values[uint64_t{history.as<uint32_t>()[t]} * cols + cols - 1]);
  if (!verify(state, download_as<float>(bench().device, out), want, format == Format::q4 ? 1.0 / 12 : 1.0 / 250))
    return;
  time_on_device(state, record, m.matrices.size(), double(tokens) * static_cast<double>(m.matrices[0].bytes()) / rows,
                 0);
}

void norm(benchmark::State& state, uint32_t cols, uint32_t tokens) {
  const std::vector<float> x = inputs(tokens, cols), weight = numbers(cols);
  const Buffer in = upload(x), scale = upload(weight), step = make_state(0, tokens);
  const Buffer out(bench().device, "out", x.size() * 4, Memory::device);
  const Record record = [&](Recorder& r, size_t) { ops::norm(r, {cols, 1e-5f}, step, in, scale, out, tokens, false); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  double squares = 0;
  for (uint32_t i = 0; i < cols; ++i) squares += double{x[i]} * x[i];
  const double last = x[cols - 1] / std::sqrt(squares / cols + 1e-5) * weight[cols - 1];
  if (!verify(state, download_as<float>(bench().device, out), {{cols - 1, last}}, 1e-5)) return;
  time_on_device(state, record, 1, 2.0 * tokens * cols * 4, 0);
}

void read(benchmark::State& state) {
  const uint64_t bytes = std::min<uint64_t>(64u << 20, bench().device->plan().slice_bytes);
  const Buffer data(bench().device, "data", bytes, Memory::device),
      sums(bench().device, "sums", bytes / 64, Memory::device);
  run_once(bench().device, "fill", [&](Recorder& r) { r.fill(data, 1); });
  time_on_device(
      state, [&](Recorder& r, size_t) { ops::read(r, data, sums); }, 1, static_cast<double>(bytes), 0);
}

struct Shape {
  const char* model;
  uint32_t rows, cols;
};

template <class... Args>
void add(const std::string& name, void (*function)(benchmark::State&, Args...), Args... args) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { function(state, args...); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void register_all() {
  // Vocabulary tables, and the largest matrix of a layer (gate and up).
  static constexpr Shape tables[] = {
      {"smollm-135m", 49152, 576}, {"qwen3-0.6b", 151936, 1024}, {"gemma3-270m", 262144, 640}};
  static constexpr Shape layers[] = {{"smollm-135m", 3072, 576}, {"qwen3-0.6b", 6144, 1024}};
  add("read/64MiB", read);
  for (const Format format : kFormats) {
    const std::string type = name(format);
    for (const Shape& s : tables) add("project/" + type + "/" + s.model, project, format, s.rows, s.cols);
    for (const Shape& s : layers)
      for (const uint32_t tokens : {1u, 64u})
        add("matmul/" + type + "/" + s.model + "/tokens:" + std::to_string(tokens), matmul, format, s.rows, s.cols,
            tokens);
    add("gather/" + type + "/smollm-135m/tokens:64", gather, format, 49152u, 576u, 64u);
  }
  register_heads();
  for (const uint32_t tokens : {1u, 64u}) add("norm/576/tokens:" + std::to_string(tokens), norm, 576u, tokens);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::AddCustomContext("device", bench().device->caps().name);
    benchmark::AddCustomContext("driver",
                                bench().device->caps().driver_name + " " + bench().device->caps().driver_info);
    benchmark::AddCustomContext("read GB/s", std::to_string(bench().read_bandwidth * 1e-9));
    register_all();
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weft-microbench: %s\n", e.what());
    return 1;
  }
}
