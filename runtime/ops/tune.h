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
  Plan plan;  // the defaults with what was chosen
  std::vector<TuneTrial> trials;
};

// Tries every candidate of one tunable after the other, each with the best of those before it. One that is not 3%
// faster than the default does not replace it; one whose results are not the defaults', up to rounding, is refused.
// Neither reads nor writes the device's file. selector as in Device::open. done is told 0..1. Throws as Device::open
// does.
TuneResult tune(std::string_view selector, const std::function<void(float)>& done);

}  // namespace weft
