#include "gpu/choose_device.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "gpu/memory_map.h"
#include "gpu/plan.h"

namespace weft {
namespace {

int rank(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::discrete:
      return 0;
    case DeviceKind::integrated:
      return 1;
    case DeviceKind::virtual_gpu:
      return 2;
    case DeviceKind::other:
      return 3;
    case DeviceKind::cpu:
      break;
  }
  return 4;
}

constexpr int kUnusable = 100;
int rank(const Caps& caps) {
  try {
    make_plan(caps);
    return rank(caps.kind);
  } catch (const Error&) {
    return kUnusable + rank(caps.kind);
  }
}

}  // namespace

size_t best_device(const std::vector<Instance::Physical>& devices, const DeviceFits& fits) {
  std::vector<std::pair<int, size_t>> order;  // rank and index
  for (size_t i = 0; i < devices.size(); ++i) order.emplace_back(rank(devices[i].caps), i);
  std::ranges::sort(order);
  const auto is_gpu = [](const auto& device) { return device.first < rank(DeviceKind::cpu); };
  if (!fits || std::ranges::count_if(order, is_gpu) < 2) return order[0].second;
  const auto found = std::ranges::find_if(order, [&](const auto& device) {
    const auto& [handle, caps] = devices[device.second];
    return is_gpu(device) && fits(device.second, caps, MemoryMap(handle, caps.kind).room(caps.memory_budget));
  });
  return found == order.end() ? order[0].second : found->second;
}

std::string selector_for(std::string_view selector, const DeviceFits& fits) {
  const char* const variable = std::getenv("WEFT_DEVICE");
  if (!selector.empty() || (variable && *variable)) return std::string(selector);
  const auto instance = Instance::get();
  return instance->devices().empty() ? "" : std::to_string(best_device(instance->devices(), fits));
}

}  // namespace weft
