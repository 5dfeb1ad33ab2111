// Shared code of the microbenchmarks: the device, inputs, matrices past the caches, checks, and the clock.
#pragma once

#include <benchmark/benchmark.h>

#include <cmath>
#include <functional>
#include <string>

#include "gpu/upload.h"
#include "ops/bandwidth.h"
#include "ops/ops.h"

namespace weft::microbench {

struct Bench {
  Bench();
  std::shared_ptr<Device> device;
  double read_bandwidth;    // bytes a second of a pure read kernel
  double empty_submission;  // seconds, the least of several
  double empty_dispatch;    // seconds of a dispatch that adds one number, with the barrier before it; likewise
};
Bench& bench();

// Evenly spread over [-1, 1], the same at every run.
inline float number(uint64_t index) {
  return static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(index * 2654435761u + 12345u)) * 0x1p-31);
}
std::vector<float> numbers(uint64_t count);
// The input of a pass of `tokens` tokens: number(7919 * token + col + 99), and zeros after the columns.
std::vector<float> inputs(uint32_t tokens, uint32_t cols);

Buffer upload(const std::vector<float>& values);
Buffer floats(uint64_t count);  // on the device, unset
// The state of a pass that computes `tokens` tokens from position `pos` on.
Buffer make_state(uint32_t pos, uint32_t tokens);

// Total size of buffers at which a run finds nothing in a cache that the run before it left there.
uint64_t cache_bytes();
// Number of copies of `bytes` bytes that have this size together; limited to what is worth making.
size_t copies_past_caches(uint64_t bytes);

// Returns false and skips the benchmark, with the reason, if the device has no room for `bytes`.
bool fits(benchmark::State& state, uint64_t bytes);

// Copies of one matrix of number(row * cols + col), enough of them to be past the caches.
struct Copies {
  Copies(Format format, uint32_t rows, uint32_t cols, Layout layout);
  static uint64_t bytes(Format format, uint32_t rows, uint32_t cols, Layout layout);
  float value(uint32_t row, uint32_t col) const { return number(uint64_t{row} * cols + col); }
  // The product of a row with x from `first` on.
  double dot(uint32_t row, const std::vector<float>& x, uint64_t first) const;

  uint32_t cols;
  std::vector<Buffer> buffers;
  std::vector<Matrix> matrices;
};

// Results: places of the output and what must be there.
using Expected = std::vector<std::pair<size_t, double>>;
// Returns false and fails the benchmark if a result is farther off than the tolerance.
bool verify(benchmark::State& state, const std::vector<float>& got, const Expected& want, double tolerance);

using Record = std::function<void(Recorder&, size_t copy)>;
// Replays the recordings (one for each copy) and reports the device's time of each, empty dispatches taken off, with
// the counters GB/s, of_read (share of the read kernel's) and, with multiplies, GFLOP/s (two a multiply), of the
// median. Recordings that take hardly longer than empty dispatches get no rates: these would be noise. bytes,
// multiplies: of one run.
void time_on_device(benchmark::State& state, const Record& record, size_t copies, double bytes, double multiplies);

template <class Function>
void add(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(name.c_str(), function)->UseManualTime()->Unit(benchmark::kMillisecond);
}

}  // namespace weft::microbench
