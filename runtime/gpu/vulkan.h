// Vulkan through volk, and the one way its results are checked. Nothing outside runtime/gpu includes this itself,
// or calls Vulkan.
#pragma once

#define VK_NO_PROTOTYPES
#include <volk.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace weft {

const char* result_name(VkResult result);

// Throws the Error that a failed call stands for; doing says what was attempted: "create the weights buffer".
[[noreturn]] void fail_vulkan(VkResult result, const std::string& doing);

inline void check(VkResult result, const char* doing) {
  if (result != VK_SUCCESS) fail_vulkan(result, doing);
}

// The whole of a list that Vulkan gives in two calls, which may have grown between them. blank: what an entry is
// before; some need their sType.
template <class T, class Get>
std::vector<T> enumerate(const char* doing, Get get, const T& blank = {}) {
  for (;;) {
    uint32_t count = 0;
    check(get(&count, static_cast<T*>(nullptr)), doing);
    std::vector<T> list(count, blank);
    const VkResult result = get(&count, list.data());
    if (result == VK_INCOMPLETE) continue;
    check(result, doing);
    list.resize(count);
    return list;
  }
}

}  // namespace weft
