// The host's limits of a process, for errors that they may have caused.
#pragma once

#include <string>

namespace weft {

// A limit of the process that may explain a failure: limited address space, few free descriptors. "": none.
std::string limits_hint();

}  // namespace weft
