// Vulkan through volk, and the one way its results are checked. Included by runtime/gpu only.
#pragma once

#define VK_NO_PROTOTYPES
#include <volk.h>

#include <string>

#include "base/error.h"

namespace weft {

const char* result_name(VkResult result);

// Throws the Error that a failed call stands for; doing says what was attempted: "create the weights buffer".
[[noreturn]] void fail_vulkan(VkResult result, const std::string& doing);

inline void check(VkResult result, const char* doing) {
  if (result != VK_SUCCESS) fail_vulkan(result, doing);
}

}  // namespace weft
