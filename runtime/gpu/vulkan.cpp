#include "gpu/vulkan.h"

#include "base/process_limits.h"

namespace weft {

const char* result_name(VkResult result) {
  switch (result) {
#define WEFT_NAME(x) \
  case x:            \
    return #x
    WEFT_NAME(VK_SUCCESS);
    WEFT_NAME(VK_NOT_READY);
    WEFT_NAME(VK_TIMEOUT);
    WEFT_NAME(VK_INCOMPLETE);
    WEFT_NAME(VK_ERROR_OUT_OF_HOST_MEMORY);
    WEFT_NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY);
    WEFT_NAME(VK_ERROR_INITIALIZATION_FAILED);
    WEFT_NAME(VK_ERROR_DEVICE_LOST);
    WEFT_NAME(VK_ERROR_MEMORY_MAP_FAILED);
    WEFT_NAME(VK_ERROR_LAYER_NOT_PRESENT);
    WEFT_NAME(VK_ERROR_EXTENSION_NOT_PRESENT);
    WEFT_NAME(VK_ERROR_FEATURE_NOT_PRESENT);
    WEFT_NAME(VK_ERROR_INCOMPATIBLE_DRIVER);
    WEFT_NAME(VK_ERROR_TOO_MANY_OBJECTS);
    WEFT_NAME(VK_ERROR_FRAGMENTED_POOL);
    WEFT_NAME(VK_ERROR_OUT_OF_POOL_MEMORY);
    WEFT_NAME(VK_ERROR_INVALID_SHADER_NV);
    WEFT_NAME(VK_ERROR_UNKNOWN);
#undef WEFT_NAME
    default:
      return "another VkResult";
  }
}

void fail_vulkan(VkResult result, const std::string& doing) {
  const std::string sentence = "cannot " + doing + ": " + result_name(result) + " (" + std::to_string(result) + ")";
  switch (result) {
    case VK_ERROR_DEVICE_LOST:
      throw Error(Code::device_lost, sentence, "Vulkan", "weft_model_recover opens the device again");
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_MEMORY_MAP_FAILED:
    case VK_ERROR_TOO_MANY_OBJECTS:
    case VK_ERROR_FRAGMENTED_POOL:
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      throw Error(Code::out_of_memory, sentence, "Vulkan", limits_hint());
    default:
      throw Error(Code::internal, sentence, "Vulkan", limits_hint());
  }
}

}  // namespace weft
