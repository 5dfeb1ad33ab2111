// The dispatches of a decoded token, as the plan of a described device records them. Nothing runs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gpu/caps.h"
#include "ops/matrix.h"

namespace weft {
class Device;
}

namespace weft::compilers {

// Changes caps to those of a described device: {"kind": "discrete", "driver_id": 4, "subgroup_size": 32, ...}. Throws
// Error(invalid_argument) for a name that caps do not have.
void describe_as(Caps& caps, const nlohmann::json& description);

// The dispatches of one greedy token in a session of `context` tokens, in order. Each is an object: part ("embed",
// "layer 0", ..., "end"), name, variant, constants, groups, threads of a workgroup, and the bytes of each binding.
nlohmann::json list_dispatches(const std::shared_ptr<Device>& device, const std::filesystem::path& folder,
                               Format format, uint32_t context);

}  // namespace weft::compilers
