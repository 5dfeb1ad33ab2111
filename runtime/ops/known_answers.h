// Small computations whose results are known: what kernels of a plan must compute on a device before they are trusted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "gpu/device.h"

namespace weft {

struct Fault {
  size_t check;        // its number, in the order in which find_fault makes them
  std::string reason;  // "a product of one token, q8: 3.5 instead of -1.25", or what the driver said
};

// The first check that fails with the kernels that the device's plan selects; nothing: all are right. The checks are
// products of one token and of many with matrices of each format, logits from a vocabulary table, an RMSNorm, and
// attention of a prompt and of one token over caches of f16 and q8. A kernel that does not compile, or loses the
// device, is a fault; one that never ends is found by Fence::wait. first: the check that is made before all others.
// Throws Error(out_of_memory) if the device has no room for the checks' buffers, 2 MiB.
std::optional<Fault> find_fault(const std::shared_ptr<Device>& device, size_t first = 0);

// Checksum of the SPIR-V of all kernels, and of the checks' version.
uint64_t known_answers_id();

}  // namespace weft
