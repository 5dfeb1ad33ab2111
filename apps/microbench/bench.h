// What the microbenchmarks share: the device, matrices past the caches, and the clock.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>

#include "gpu/upload.h"
#include "ops/bandwidth.h"
#include "ops/ops.h"

namespace weft::microbench {

struct Bench {
  std::shared_ptr<Device> device = Device::open();
  double read_bandwidth = measure_read_bandwidth(device);  // bytes a second
};

inline Bench& bench() {
  static Bench instance;
  return instance;
}

// Evenly spread over [-1, 1], the same at every run.
inline float number(uint64_t index) {
  return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(index * 2654435761u + 12345u)) * 0x1p-31);
}

inline std::vector<float> numbers(uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = number(i);
  return values;
}

inline Buffer upload(const std::vector<float>& values) {
  Buffer buffer(bench().device, "input", values.size() * 4, Memory::device);
  Uploader(bench().device).upload(View(buffer), std::span<const float>(values));
  return buffer;
}

// The state of a pass that computes `tokens` tokens from position `pos` on.
inline Buffer make_state(uint32_t pos, uint32_t tokens) {
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
inline void time_on_device(benchmark::State& state, const Record& record, size_t copies, double bytes,
                           double products) {
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
  std::map<std::string, double> stages;
  std::vector<double> times;
  for (auto _ : state) {
    const size_t copy = round++ % copies;
    double seconds = run(commands[copy]) - empty;
    if (stamps) {
      seconds = 0;
      for (const Timestamps::Stage& stage : timestamps[copy]->read()) {
        seconds += stage.seconds;
        stages[stage.name] += stage.seconds;
      }
    }
    times.push_back(std::max(seconds, 1e-9));
    state.SetIterationTime(times.back());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  if (stages.size() > 1)  // mean milliseconds of each
    for (const auto& [stage, seconds] : stages)
      state.counters[stage + "_ms"] = seconds / static_cast<double>(round) * 1e3;
  const double median = times[times.size() / 2];
  state.counters["GB/s"] = bytes / median * 1e-9;
  state.counters["of_read"] = bytes / median / bench().read_bandwidth;  // share of the measured read bandwidth
  if (products > 0) state.counters["GMAC/s"] = products / median * 1e-9;
}

// Compares a few of the results with the CPU's, computed from the unrounded weights: formats differ by their rounding.
inline bool verify(benchmark::State& state, const std::vector<float>& got,
                   const std::vector<std::pair<size_t, double>>& want, double tolerance) {
  for (const auto& [index, value] : want) {
    if (std::abs(got[index] - value) <= tolerance) continue;
    char text[160];
    std::snprintf(text, sizeof text, "wrong result: element %zu is %g, the CPU says %g", index, got[index], value);
    state.SkipWithError(text);
    return false;
  }
  return true;
}

inline double dot(const Copies& m, uint32_t row, const std::vector<float>& x, uint64_t first) {
  const uint32_t cols = m.matrices[0].cols;
  double sum = 0;
  for (uint32_t i = 0; i < cols; ++i) sum += double{m.values[uint64_t{row} * cols + i]} * x[first + i];
  return sum;
}

// q8 rounds a weight of at most 1 by at most 1 / 254, q4 by 1 / 15 or so; errors of a row add like a random walk. Six
// deviations.
inline double tolerance(Format format, uint32_t cols) {
  return 6 * std::sqrt(static_cast<double>(cols)) / (format == Format::q4 ? 15 : 254);
}

inline void check_rows(const Copies& m, const std::vector<float>& x, uint32_t tokens, uint32_t out_stride,
                       std::vector<std::pair<size_t, double>>& want) {
  const Matrix& matrix = m.matrices[0];
  for (uint32_t token = 0; token < tokens; ++token)
    for (const uint32_t row : {0u, matrix.rows / 3, matrix.rows - 1})
      want.emplace_back(uint64_t{token} * out_stride + row, dot(m, row, x, uint64_t{token} * stride_of(matrix.cols)));
}

// The input of a product: zeros behind the columns.
inline std::vector<float> inputs(uint32_t tokens, uint32_t cols) {
  std::vector<float> x(uint64_t{tokens} * stride_of(cols), 0.0f);
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t i = 0; i < cols; ++i) x[uint64_t{t} * stride_of(cols) + i] = number(uint64_t{t} * 7919 + i + 99);
  return x;
}

}  // namespace weft::microbench
