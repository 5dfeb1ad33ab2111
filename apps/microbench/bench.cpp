#include "microbench/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

namespace weft::microbench {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

double seconds_of(Device& device, const CommandBuffer& commands, Fence& fence) {
  const auto start = std::chrono::steady_clock::now();
  device.submit({&commands}, fence);
  fence.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double measure_empty_submission(const std::shared_ptr<Device>& device) {
  CommandPool pool(device);
  Fence fence(device);
  const CommandBuffer nothing = Recorder(pool, "empty").finish();
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) times.push_back(seconds_of(*device, nothing, fence));
  return least(times);
}

double measure_empty_dispatch(const std::shared_ptr<Device>& device, double empty_submission) {
  constexpr uint32_t kDispatches = 100;
  const Buffer x(device, "x", 256, Memory::device), y(device, "y", 256, Memory::device);
  run_once(device, "zeros", [&](Recorder& r) { r.fill(x, 0), r.fill(y, 0); });
  CommandPool pool(device);
  Fence fence(device);
  std::unique_ptr<Timestamps> timestamps;
  if (device->caps().timestamps) timestamps = std::make_unique<Timestamps>(device, kDispatches + 1);
  Recorder recorder(pool, "empty dispatches", timestamps.get());
  for (uint32_t i = 0; i < kDispatches; ++i) ops::add(recorder, x, y, 1);
  const CommandBuffer commands = recorder.finish();
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) {
    const double seconds = seconds_of(*device, commands, fence) - empty_submission;
    times.push_back((timestamps ? timestamps->read()[0].seconds : std::max(seconds, 0.0)) / kDispatches);
  }
  return least(times);
}

// Tiles [first, ...) of the matrix of numbers, as they lie on the device.
void pack_numbers(const Matrix& matrix, uint64_t first, std::span<std::byte> out) {
  std::vector<float> values(uint64_t{TILE_ROWS} * matrix.cols);
  for (; !out.empty(); ++first, out = out.subspan(matrix.tile_bytes())) {
    const uint32_t rows = std::min<uint32_t>(TILE_ROWS, matrix.rows - static_cast<uint32_t>(first * TILE_ROWS));
    const uint64_t begin = first * TILE_ROWS * matrix.cols, count = uint64_t{rows} * matrix.cols;
    for (uint64_t i = 0; i < count; ++i) values[i] = number(begin + i);
    const TensorView tensor = {
        "numbers", DType::f32, {rows, matrix.cols}, std::as_bytes(std::span<const float>(values).first(count))};
    const TensorView* const parts[] = {&tensor};
    pack_tiles({matrix.format, rows, matrix.cols, {}, matrix.layout, {}, matrix.basis}, parts, 0,
               out.first(matrix.tile_bytes()));
  }
}

}  // namespace

Bench::Bench()
    : device(Device::open()),
      read_bandwidth(measure_read_bandwidth(device)),
      empty_submission(measure_empty_submission(device)),
      empty_dispatch(measure_empty_dispatch(device, empty_submission)) {}

Bench& bench() {
  static Bench instance;
  return instance;
}

std::vector<float> numbers(uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = number(i);
  return values;
}

std::vector<float> inputs(uint32_t tokens, uint32_t cols) {
  std::vector<float> x(uint64_t{tokens} * stride_of(cols), 0.0f);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t i = 0; i < cols; ++i) x[uint64_t{t} * stride_of(cols) + i] = number(uint64_t{t} * 7919 + i + 99);
  return x;
}

Buffer upload(const std::vector<float>& values) {
  Buffer buffer(bench().device, "input", values.size() * 4, Memory::device);
  Uploader(bench().device).upload(View(buffer), std::span<const float>(values));
  return buffer;
}

Buffer floats(uint64_t count) { return Buffer(bench().device, "floats", count * 4, Memory::device); }

Buffer make_state(uint32_t pos, uint32_t tokens) {
  Buffer buffer(bench().device, "state", sizeof(abi::StepState), Memory::shared);
  *buffer.as<abi::StepState>() = {pos, pos + tokens, 0, pos + tokens + 1, 0, 0, 0, 0, {}};
  return buffer;
}

uint64_t cache_bytes() { return bench().device->caps().kind == DeviceKind::discrete ? 256u << 20 : 64u << 20; }

size_t copies_past_caches(uint64_t bytes) { return std::clamp<uint64_t>(2 * cache_bytes() / bytes, 1, 64); }

bool fits(benchmark::State& state, uint64_t bytes) {
  const Device& device = *bench().device;
  const uint64_t room = device.memory_left();
  if (bytes <= room - room / 8) return true;
  char text[160];
  std::snprintf(text, sizeof text, "skipped: it needs %.2f GiB, the device has %.2f",
                static_cast<double>(bytes) / 0x1p30, static_cast<double>(room) / 0x1p30);
  state.SkipWithError(text);
  return false;
}

uint64_t Copies::bytes(Format format, uint32_t rows, uint32_t cols, Layout layout) {
  const uint64_t one = Matrix{format, rows, cols, {}, layout}.bytes();
  return one * copies_past_caches(one);
}

Copies::Copies(Format format, uint32_t rows, uint32_t columns, Layout layout) : cols(columns) {
  const auto basis = layout == Layout::planes ? std::make_shared<const Basis>(cols) : nullptr;
  const Matrix matrix = {format, rows, cols, {}, layout, {}, basis};
  buffers.resize(copies_past_caches(matrix.bytes()));
  for (Buffer& buffer : buffers) {
    buffer = Buffer(bench().device, "matrix", matrix.bytes(), Memory::device);
    matrices.push_back(matrix);
    matrices.back().view = buffer;
  }
  Uploader(bench().device).upload(buffers[0], matrix.tile_bytes(), [&](uint64_t offset, std::span<std::byte> out) {
    pack_numbers(matrix, offset / matrix.tile_bytes(), out);
  });
  run_once(bench().device, "copies", [&](Recorder& r) {
    for (size_t i = 1; i < buffers.size(); ++i) r.copy(buffers[0], buffers[i]);
  });
}

double Copies::dot(uint32_t row, const std::vector<float>& x, uint64_t first) const {
  double sum = 0;
  for (uint32_t i = 0; i < cols; ++i) sum += double{value(row, i)} * x[first + i];
  return sum;
}

bool verify(benchmark::State& state, const std::vector<float>& got, const Expected& want, double tolerance) {
  for (const auto& [index, value] : want) {
    if (std::abs(got[index] - value) <= tolerance) continue;  // not of a NaN
    char text[160];
    std::snprintf(text, sizeof text, "wrong result: element %zu is %g, the CPU says %g", index, got[index], value);
    state.SkipWithError(text);
    return false;
  }
  return true;
}

void time_on_device(benchmark::State& state, const Record& record, size_t copies, double bytes, double multiplies) {
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
  for (size_t i = 0; i < std::min<size_t>(copies, 4); ++i) seconds_of(*device, commands[i], fence);  // warms up
  size_t round = 0;
  std::map<std::string, double> stages;
  std::vector<double> times;
  double empty = 0;  // of a run: taken off
  for (auto _ : state) {
    const size_t copy = round++ % copies;
    double seconds = seconds_of(*device, commands[copy], fence) - bench().empty_submission;
    if (stamps) {
      seconds = empty = 0;
      for (const Timestamps::Stage& stage : timestamps[copy]->read()) {
        seconds += stage.seconds;
        empty += stage.dispatches * bench().empty_dispatch;
        stages[stage.name] += stage.seconds;
      }
    }
    times.push_back(std::max(seconds - empty, 1e-9));
    state.SetIterationTime(times.back());
  }
  if (stages.size() > 1)  // mean milliseconds of each
    for (const auto& [stage, seconds] : stages)
      state.counters[stage + "_ms"] = seconds / static_cast<double>(round) * 1e3;
  const double middle = median(times);
  state.counters["ms"] = middle * 1e3;
  if (middle < empty / 10) return;
  if (bytes > 0) {
    state.counters["GB/s"] = bytes / middle * 1e-9;
    state.counters["of_read"] = bytes / middle / bench().read_bandwidth;
  }
  if (multiplies > 0) state.counters["GFLOP/s"] = 2 * multiplies / middle * 1e-9;
}

}  // namespace weft::microbench
