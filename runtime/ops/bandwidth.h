// Bandwidth of a kernel that only reads, on a device: the yardstick of every run.
#pragma once

#include <memory>

#include "gpu/device.h"

namespace weft {

// Bytes a second, the median of several runs, an empty submission's time subtracted. Takes up to about half a second.
double measure_read_bandwidth(const std::shared_ptr<Device>& device);

}  // namespace weft
