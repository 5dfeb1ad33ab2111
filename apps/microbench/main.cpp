// weft-microbench: the shaders one by one over the shapes of real models. Each is verified against the CPU before it is
// timed; times are the device's timestamps where it has them, else the submission's less an empty one's; buffers rotate
// so that a run does not find its matrix in the cache. Takes Google Benchmark's options, and WEFT_DEVICE.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>

#include "gpu/upload.h"
#include "ops/bandwidth.h"
#include "ops/ops.h"

namespace {

using namespace weft;

struct Bench {
  std::shared_ptr<Device> device = Device::open();
  double read_bandwidth = measure_read_bandwidth(device);  // bytes a second
};

Bench& bench() {
  static Bench instance;
  return instance;
}

// Evenly spread over [-1, 1], the same at every run.
float number(uint64_t index) {
  return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(index * 2654435761u + 12345u)) * 0x1p-31);
}

std::vector<float> numbers(uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = number(i);
  return values;
}

Buffer upload(const std::vector<float>& values) {
  Buffer buffer(bench().device, "input", values.size() * 4, Memory::device);
  Uploader(bench().device).upload(View(buffer), std::span<const float>(values));
  return buffer;
}

// The state of a pass that computes `tokens` tokens from position `pos` on.
Buffer make_state(uint32_t pos, uint32_t tokens) {
  Buffer buffer(bench().device, "state", sizeof(abi::StepState), Memory::shared);
  *buffer.as<abi::StepState>() = {pos, pos + tokens, 0, pos + tokens + 1, 0, 0, 0, 0, {}};
  return buffer;
}

// Copies of one matrix of number(row * cols + col), enough of them to be past the caches.
struct Copies {
  Copies(Format format, uint32_t rows, uint32_t cols, Layout layout) : values(numbers(uint64_t{rows} * cols)) {
    const TensorView tensor = {"numbers", DType::f32, {rows, cols}, std::as_bytes(std::span<const float>(values))};
    const TensorView* const parts[] = {&tensor};
    Matrix matrix = {format, rows, cols, {}, layout};
    const uint64_t cache = bench().device->caps().kind == DeviceKind::discrete ? 256u << 20 : 64u << 20;
    buffers.resize(std::clamp<uint64_t>(cache / matrix.bytes(), 1, 8));
    Uploader uploader(bench().device);
    for (Buffer& buffer : buffers) {
      buffer = Buffer(bench().device, "matrix", matrix.bytes(), Memory::device);
      uploader.upload(buffer, matrix.tile_bytes(), [&](uint64_t offset, std::span<std::byte> out) {
        pack_tiles(matrix, parts, static_cast<uint32_t>(offset / matrix.tile_bytes()), out);
      });
    }
    for (const Buffer& buffer : buffers) {
      matrices.push_back(matrix);
      matrices.back().view = buffer;
    }
  }
  std::vector<float> values;
  std::vector<Buffer> buffers;
  std::vector<Matrix> matrices;
};

using Record = std::function<void(Recorder&, size_t copy)>;

// Replays the recordings (one for each copy) and reports the device's time of each.
void time_on_device(benchmark::State& state, const Record& record, size_t copies, double bytes, double products) {
  const std::shared_ptr<Device>& device = bench().device;
  const bool stamps = device->caps().timestamps;
  CommandPool pool(device);
  Fence fence(device);
  std::vector<std::unique_ptr<Timestamps>> timestamps(copies);
  std::vector<CommandBuffer> commands;
  for (size_t copy = 0; copy < copies; ++copy) {
    if (stamps) timestamps[copy] = std::make_unique<Timestamps>(device, 1024);
    Recorder recorder(pool, "bench", timestamps[copy].get());
    record(recorder, copy);
    commands.push_back(recorder.finish());
  }
  const CommandBuffer nothing = Recorder(pool, "empty").finish();
  const auto run = [&](const CommandBuffer& what) {
    const auto start = std::chrono::steady_clock::now();
    device->submit({&what}, fence);
    fence.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double empty = 1;
  for (int i = 0; i < 5; ++i) empty = std::min(empty, run(nothing));
  for (const CommandBuffer& warm : commands) run(warm);
  size_t round = 0;
  std::vector<double> times;
  for (auto _ : state) {
    const size_t copy = round++ % copies;
    double seconds = run(commands[copy]) - empty;
    if (stamps) {
      seconds = 0;
      for (const Timestamps::Stage& stage : timestamps[copy]->read()) seconds += stage.seconds;
    }
    times.push_back(std::max(seconds, 1e-9));
    state.SetIterationTime(times.back());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  const double median = times[times.size() / 2];
  state.counters["GB/s"] = bytes / median * 1e-9;
  state.counters["of_read"] = bytes / median / bench().read_bandwidth;  // share of the measured read bandwidth
  if (products > 0) state.counters["GMAC/s"] = products / median * 1e-9;
}

// Compares a few of the results with the CPU's, computed from the unrounded weights: formats differ by their rounding.
bool verify(benchmark::State& state, const std::vector<float>& got, const std::vector<std::pair<size_t, double>>& want,
            double tolerance) {
  for (const auto& [index, value] : want) {
    if (std::abs(got[index] - value) <= tolerance) continue;
    char text[160];
    std::snprintf(text, sizeof text, "wrong result: element %zu is %g, the CPU says %g", index, got[index], value);
    state.SkipWithError(text);
    return false;
  }
  return true;
}

double dot(const Copies& m, uint32_t row, const std::vector<float>& x, uint64_t first) {
  const uint32_t cols = m.matrices[0].cols;
  double sum = 0;
  for (uint32_t i = 0; i < cols; ++i) sum += double{m.values[uint64_t{row} * cols + i]} * x[first + i];
  return sum;
}

// q8 rounds a weight of at most 1 by at most 1 / 254; errors of a row add like a random walk. Six deviations.
double tolerance(uint32_t cols) { return 6 * std::sqrt(static_cast<double>(cols)) / 254; }

void check_rows(const Copies& m, const std::vector<float>& x, uint32_t tokens, uint32_t out_stride,
                std::vector<std::pair<size_t, double>>& want) {
  const Matrix& matrix = m.matrices[0];
  for (uint32_t token = 0; token < tokens; ++token)
    for (const uint32_t row : {0u, matrix.rows / 3, matrix.rows - 1})
      want.emplace_back(uint64_t{token} * out_stride + row, dot(m, row, x, uint64_t{token} * stride_of(matrix.cols)));
}

// The input of a product: zeros behind the columns.
std::vector<float> inputs(uint32_t tokens, uint32_t cols) {
  std::vector<float> x(uint64_t{tokens} * stride_of(cols), 0.0f);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t i = 0; i < cols; ++i) x[uint64_t{t} * stride_of(cols) + i] = number(uint64_t{t} * 7919 + i + 99);
  return x;
}

void project(benchmark::State& state, Format format, uint32_t rows, uint32_t cols) {
  const Copies m(format, rows, cols, Layout::planes);
  const std::vector<float> x = inputs(1, cols);
  const Buffer in = upload(x), logits(bench().device, "logits", uint64_t{rows} * 4, Memory::device);
  const Record record = [&](Recorder& r, size_t copy) { ops::project(r, m.matrices[copy], in, logits, 1); };
  run_once(bench().device, "verify", [&](Recorder& r) { record(r, 0); });
  std::vector<std::pair<size_t, double>> want;
  check_rows(m, x, 1, rows, want);
  if (!verify(state, download_as<float>(bench().device, logits), want, tolerance(cols))) return;
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
  if (!verify(state, download_as<float>(bench().device, out), want, tolerance(cols))) return;
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
  if (!verify(state, download_as<float>(bench().device, out), want, 1.0 / 250)) return;
  time_on_device(state, record, m.matrices.size(), double(tokens) * static_cast<double>(m.matrices[0].bytes()) / rows,
                 0);
}

void norm(benchmark::State& state, uint32_t cols, uint32_t tokens) {
  const std::vector<float> x = inputs(tokens, cols), weight = numbers(cols);
  const Buffer in = upload(x), scale = upload(weight), step = make_state(0, tokens);
  const Buffer out(bench().device, "out", x.size() * 4, Memory::device);
  const Record record = [&](Recorder& r, size_t) { ops::norm(r, step, in, scale, out, cols, 1e-5f, tokens, false); };
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
  for (const Format format : {Format::q8, Format::f16}) {
    const std::string type = name(format);
    for (const Shape& s : tables) add("project/" + type + "/" + s.model, project, format, s.rows, s.cols);
    for (const Shape& s : layers)
      for (const uint32_t tokens : {1u, 64u})
        add("matmul/" + type + "/" + s.model + "/tokens:" + std::to_string(tokens), matmul, format, s.rows, s.cols,
            tokens);
    add("gather/" + type + "/smollm-135m/tokens:64", gather, format, 49152u, 576u, 64u);
  }
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
