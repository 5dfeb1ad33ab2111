// Takes out of a shader what its specialisation constants exclude, before a driver sees it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft {

// The SPIR-V without the branches that never run with these specialisation constants (0, 1, ...) and without functions
// that nothing calls then. Drivers would find both, but some of them translate everything first: SwiftShader takes a
// tenth of the time for a product of matrices, which knows every number format. The specialisation constants themselves
// stay as they are. A module that it does not understand stays as it is. spirv: valid SPIR-V 1.3 from glslang.
std::vector<uint32_t> specialise(std::span<const uint32_t> spirv, std::span<const uint32_t> constants);

}  // namespace weft
