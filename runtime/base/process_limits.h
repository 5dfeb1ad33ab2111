// The host's limits of a process, for errors that they may have caused.
#pragma once

#include <string>

namespace weft {

// What the process's limits may have to do with a failure: limited address space, few free descriptors. "": nothing.
std::string limits_hint();

}  // namespace weft
