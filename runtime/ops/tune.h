// The short search for a device's best tile and workgroup shapes (gpu/tuning.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.h"

namespace weft {

struct TuneTrial {
  const char* tunable;  // tunables()' name
  uint32_t value;
  double seconds;       // of the tunable's work: the least of several runs; 0: it was not timed
  std::string refusal;  // why not: it failed, or its results were not the defaults'
};

struct TuneResult {
  Caps caps;
  Plan plan;  // the defaults with the chosen values
  std::vector<TuneTrial> trials;
};

// Tries every candidate of one tunable after the other, each with the best values of the tunables before it. A
// candidate must be 3% faster than the default to replace it; one whose results differ from the defaults' by more than
// rounding is refused. Does not read or write the device's file. selector as in Device::open. done is called with 0..1.
// Throws as Device::open does.
TuneResult tune(std::string_view selector, const std::function<void(float)>& done);

}  // namespace weft
