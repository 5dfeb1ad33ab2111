// The kernels of a test run, compiled once more by a real GPU's compiler where there is no such GPU: Mesa's RADV makes
// a device of any family it knows when RADV_FORCE_FAMILY names one; nothing runs on it.
#pragma once

#include <map>
#include <string>

#include "gpu/kernel.h"

namespace weft::test {

// Compiles the kernels for each family of a list ("polaris10,navi21"), fails the test where a register is spilled or a
// kernel cannot be compiled, and prints a line a family; without RADV one that says so. No other device may be open,
// and VK_DRIVER_FILES is left changed.
void compile_for(const std::string& families, const std::map<std::string, KernelSpec>& kernels);

}  // namespace weft::test
