// Which of several devices is used where none is named.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/instance.h"

namespace weft {

// True if a device has enough for its user: its index, caps, and the bytes that are free in each heap (memory_map.h).
using DeviceFits = std::function<bool(size_t index, const Caps& caps, const std::vector<uint64_t>& room)>;

// The best device that Weft can run on: discrete before integrated before virtual before cpu, and a GPU that fits
// before others. If Weft can run on no device, the first of that order, whose plan gives the reason. devices: one or
// more.
size_t best_device(const std::vector<Instance::Physical>& devices, const DeviceFits& fits = {});

// A selector for Device::open: this one, unless it is empty and $WEFT_DEVICE too. Then the best device's index, or ""
// without devices.
std::string selector_for(std::string_view selector, const DeviceFits& fits);

}  // namespace weft
