#include "ops/bandwidth.h"

#include <algorithm>
#include <chrono>

#include "gpu/recorder.h"
#include "ops/ops.h"

namespace weft {
namespace {

double median_seconds(const std::shared_ptr<Device>& device, const std::vector<const CommandBuffer*>& commands) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  Fence fence(device);
  for (int run = 0; run < 6; ++run) {
    const Clock::time_point start = Clock::now();
    device->submit(commands, fence);
    fence.wait();
    if (run > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());  // the first compiles
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

double measure_read_bandwidth(const std::shared_ptr<Device>& device) {
  // Several times the caches of a card, little beside a phone's memory; bound in parts of one binding's reach.
  uint64_t wanted = device->caps().kind == DeviceKind::discrete ? 1u << 30 : 128u << 20;
  wanted = std::clamp<uint64_t>(device->memory_left() / 2 / READ_BYTES * READ_BYTES, READ_BYTES, wanted);
  if (const uint64_t budget = device->plan().memory_budget) {  // of what is left of it, leave some for the sums
    const uint64_t left = budget - device->memory_use().device;
    wanted = std::clamp<uint64_t>(left / 4 * 3 / READ_BYTES * READ_BYTES, READ_BYTES, wanted);
  }
  const uint64_t part = std::min<uint64_t>({wanted, device->plan().slice_bytes / READ_BYTES * READ_BYTES, 128u << 20});
  const uint32_t parts = static_cast<uint32_t>(wanted / part), repeats = 2;
  const Buffer data(device, "bandwidth", part * parts, Memory::device);
  // A place of its own for each dispatch: they need no barrier between them.
  const uint64_t place = align_up(part / READ_BYTES * 4, kViewAlignment);
  const Buffer sums(device, "bandwidth sums", place * parts * repeats, Memory::device);
  run_once(device, "bandwidth", [&](Recorder& r) { r.fill(data, 0x01020304); });
  CommandPool pool(device);
  Recorder empty(pool, "empty");
  const CommandBuffer nothing = empty.finish(true);
  Recorder recorder(pool, "bandwidth");
  for (uint32_t i = 0; i < parts * repeats; ++i)
    ops::read_bandwidth(recorder, View(data, i % parts * part, part), View(sums, i * place, place));
  const CommandBuffer reading = recorder.finish(true);
  const double overhead = median_seconds(device, {&nothing});
  const double seconds = std::max(median_seconds(device, {&reading}) - overhead, 1e-9);
  return static_cast<double>(part * parts * repeats) / seconds;
}

}  // namespace weft
