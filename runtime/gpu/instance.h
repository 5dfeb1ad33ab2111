// The process's one VkInstance, and the physical devices behind it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gpu/caps.h"
#include "gpu/vulkan.h"

namespace weft {

class Instance {
 public:
  // The instance shared by every Device; made at the first call, destroyed when the last user lets go. Throws
  // Error(no_device) if there is no Vulkan loader. WEFT_VALIDATION=1 in the environment turns on the validation layer
  // with synchronization validation, and throws if the layer is not installed.
  static std::shared_ptr<Instance> get();
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  struct Physical {
    VkPhysicalDevice handle;
    Caps caps;  // with WEFT_DISABLE applied
  };
  const std::vector<Physical>& devices() const { return devices_; }
  VkInstance handle() const { return handle_; }
  // Whether objects and commands can be named for debuggers and validation messages.
  bool debug_utils() const { return debug_utils_; }

  // Warnings and errors of the validation layer since the process started, oldest first. Tests want none.
  static std::vector<std::string> validation_messages();

 private:
  Instance() = default;
  void create();
  void list_devices();
  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  bool debug_utils_ = false;
  std::vector<Physical> devices_;
};

}  // namespace weft
