#include "support/compile_for.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "gpu/device.h"

namespace weft::test {
namespace {

// Returns RADV's loader file, or "".
std::string radv_driver() {
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/usr/share/vulkan/icd.d", ignored))
    if (file.path().filename().string().starts_with("radeon_icd.")) return file.path();
  return "";
}

// True if everything compiles and no register spills.
bool compile_all(const std::string& family, const std::map<std::string, KernelSpec>& kernels) try {
  // Never destroyed: without hardware, RADV 22.3 calls a null pointer where it should.
  Device& device = **new std::shared_ptr<Device>(Device::open({}, [](const Caps& caps) {
    Plan plan = make_plan(caps);
    plan.statistics = true;
    return plan;
  }));
  uint64_t most = 0, spilled = 0;
  std::string largest;
  for (const auto& [name, spec] : kernels) {
    const std::string_view variant = spec.shader.variant;
    if (variant.ends_with("fp16") && !device.caps().fp16) continue;
    if (spec.shader.full_subgroups && variant != "matrix" && !device.plan().uniform_parts) continue;
    if (variant == "matrix" && !device.caps().matrices) continue;
    if (variant.ends_with("int8") && !device.caps().int8_dot_fast) continue;  // it is not meant for others
    const auto statistics = device.kernel(spec).statistics();
    const auto lost = static_cast<uint64_t>(statistics.at("Spilled SGPRs") + statistics.at("Spilled VGPRs")),
               used = static_cast<uint64_t>(statistics.at("VGPRs"));
    if (lost > 0)
      std::cout << family << ": " << name << " spills " << statistics.at("Spilled SGPRs") << " SGPRs and "
                << statistics.at("Spilled VGPRs") << " VGPRs" << std::endl;
    spilled += lost;
    if (used > most) most = used, largest = name;
  }
  std::cout << family << ": " << kernels.size() << " kernels, " << spilled << " registers spilled, at most " << most
            << " VGPRs (" << largest << ")" << std::endl;
  return spilled == 0;
} catch (const std::exception& error) {
  std::cout << family << ": " << error.what() << std::endl;
  return false;
}

}  // namespace

void compile_for(const std::string& families, const std::map<std::string, KernelSpec>& kernels) {
  const std::string driver = radv_driver();
  if (driver.empty()) {
    // CTest counts the run as skipped when it reads this, so a failed one must not print it.
    if (testing::UnitTest::GetInstance()->Passed())
      std::cout << "NOTICE: RADV is not installed, nothing was compiled for " << families << std::endl;
    return;
  }
  setenv("VK_DRIVER_FILES", driver.c_str(), 1);
  std::istringstream list(families);
  for (std::string family; std::getline(list, family, ',');) {
    setenv("RADV_FORCE_FAMILY", family.c_str(), 1);
    // A process of its own for each, which leaves its device behind.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(compile_all(family, kernels) ? 0 : 1);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << family << ": see above";
  }
}

}  // namespace weft::test
